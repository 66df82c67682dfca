"""Promotional credit: given by the operator, spent first, never refunded, gone when its time is over.

What expires first is spent first. Each grant keeps what was left of it when the grants were last settled against
their account; between two such moments no grant begins or ends, so taking what was spent off them in the order of
their ends is exact.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.models import LedgerAccount, LedgerTx, PromoGrant
from portal.billing.rules import grants as rules
from portal.billing.rules.accounts import Kind
from portal.billing.rules.grants import Grant
from portal.billing.selectors import balances
from portal.billing.selectors import grants as selectors
from portal.billing.services import credit_messages, ledger, templates
from portal.core.errors import InvalidValue
from portal.integrations import bus

WARN_BEFORE = timedelta(days=3)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Gift:
    """What is given: an amount (nano), until when (None: for ever), and the words that the customer reads."""

    amount_nano: int
    expires_at: datetime | None = None
    note: str = ""


def grant_promo(
    *, organization: Organization, amount_nano: int, key: str, actor: Actor, now: datetime, note: str = ""
) -> LedgerTx:
    """Give an organization promotional credit that never expires, once per `key`. Raises UnsoundTransfer, KeyReused."""
    gift = Gift(amount_nano=amount_nano, note=note)
    return give(organization=organization, gift=gift, key=key, actor=actor, now=now).tx


def give(*, organization: Organization, gift: Gift, key: str, actor: Actor, now: datetime) -> PromoGrant:
    """Give an organization promotional credit once per `key`. Raises InvalidValue, UnsoundTransfer, KeyReused."""
    if gift.expires_at is not None and gift.expires_at <= now:
        raise InvalidValue("a gift must end after now", param="expires_at")
    owner = organization.public_id
    with transaction.atomic():
        _settle(organization, locks.grants(organization.pk))
        tx = ledger.post(
            kind="promo_grant",
            key=f"promo:{owner}:{key}",
            source_type="grant",
            source_id=key,
            transfers=templates.promo_grant(organization=owner, amount=gift.amount_nano, currency=settings.CURRENCY),
            actor=actor,
            now=now,
            note=gift.note,
        )
        grant, is_new = PromoGrant.objects.get_or_create(
            organization=organization,
            key=key,
            defaults={
                "amount_nano": gift.amount_nano,
                "rest_nano": gift.amount_nano,
                "note": gift.note,
                "tx": tx,
                "created_at": now,
                "expires_at": gift.expires_at,
            },
        )
        if is_new:
            _tell(grant, tx, actor, now)
    return grant


def _tell(grant: PromoGrant, tx: LedgerTx, actor: Actor, now: datetime) -> None:
    owner = grant.organization.public_id
    ends = grant.expires_at.isoformat() if grant.expires_at else None
    audit.record(
        actor=actor,
        event="credit.granted",
        subject=owner,
        now=now,
        organization=owner,
        detail={"tx": str(tx.pk), "nano": str(grant.amount_nano), "grant": grant.public_id, "expires_at": ends},
    )
    bus.announce("leases", str(grant.organization_id))


def _settle(organization: Organization, held: Sequence[PromoGrant]) -> LedgerAccount:
    """Bring the locked grants to what their account still has, and return that account, locked."""
    account = ledger.account(Kind.PROMO_CREDIT, organization.public_id, currency=settings.CURRENCY)
    locked = locks.accounts([account.pk])[account.pk]
    rows = {row.pk: row for row in held}
    for grant in rules.spend([_as_rule(row) for row in held], balance_nano=balances.balance_of(locked)):
        if rows[grant.number].rest_nano != grant.rest_nano:
            rows[grant.number].rest_nano = grant.rest_nano
            rows[grant.number].save(update_fields=["rest_nano"])
    return locked


def _as_rule(row: PromoGrant) -> Grant:
    return Grant(number=row.pk, rest_nano=row.rest_nano, expires_at=row.expires_at)


def expire(*, organization_id: int, now: datetime) -> int:
    """Take what is left of an organization's ended grants, as far as no running request holds it; return how much.

    What is held is asked back from the gateways, and taken by the next round unless it is spent by then.
    """
    taken = 0
    with transaction.atomic():
        organization = Organization.objects.get(pk=organization_id)
        held = locks.grants(organization_id)
        account = _settle(organization, held)
        rows = {row.pk: row for row in held}
        now_left = [_as_rule(row) for row in held]
        for grant, part in rules.expire(now_left, free_nano=balances.free_of(account), now=now):
            _take(rows[grant.number], part, now)
            taken += part
        if any(row.rest_nano and row.expires_at and row.expires_at <= now for row in held):
            bus.announce("leases", str(organization_id))
    return taken


def _take(grant: PromoGrant, part: int, now: datetime) -> None:
    owner = grant.organization.public_id
    ledger.post(
        kind="promo_expiry",
        key=f"promo-expiry:{grant.public_id}:{grant.expired_nano}",
        source_type="grant",
        source_id=grant.public_id,
        transfers=templates.promo_expiry(organization=owner, amount=part, currency=settings.CURRENCY),
        actor=SYSTEM_ACTOR,
        now=now,
        note=grant.note,
    )
    grant.rest_nano -= part
    grant.expired_nano += part
    grant.save(update_fields=["rest_nano", "expired_nano"])
    audit.record(
        actor=SYSTEM_ACTOR,
        event="credit.expired",
        subject=grant.public_id,
        now=now,
        organization=owner,
        detail={"nano": str(part)},
    )


def expire_due(*, now: datetime) -> int:
    """Expire what is due everywhere; return how many organizations lost something."""
    return sum(expire(organization_id=organization_id, now=now) > 0 for organization_id in selectors.ended(now=now))


def warn_due(*, now: datetime) -> int:
    """Write once to those whose grant ends soon and is not spent; return how many grants were warned of."""
    warned = 0
    for grant_id in selectors.ending(now=now, until=now + WARN_BEFORE):
        with transaction.atomic():
            organization = PromoGrant.objects.select_related("organization").get(pk=grant_id).organization
            rows = {row.pk: row for row in locks.grants(organization.pk)}
            _settle(organization, list(rows.values()))
            grant = rows.get(grant_id)
            if grant is None or grant.warned_at is not None or not grant.rest_nano:
                continue
            grant.warned_at = now
            grant.save(update_fields=["warned_at"])
            credit_messages.promo_expires(grant=grant, now=now)
            warned += 1
    return warned
