"""Earnings from before a provider is identified: watched against their caps, released, and by policy forfeited."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.accounts.services.owners import tell_owners
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import EarningMaturity, HeldEarning, LedgerTx
from portal.billing.rules import held as rules
from portal.billing.selectors import held_earnings as selectors
from portal.billing.services import due, ledger, templates
from portal.core import money
from portal.providers.models import Provider
from portal.providers.services import review

REMINDED = (timedelta(days=30), timedelta(days=7))


def watch(*, now: datetime) -> int:
    """Stop or resume paid work of unidentified providers as the caps say; return how many changed."""
    held = selectors.held_by_provider()
    total, caps = sum(held.values()), selectors.caps()
    changed = 0
    for row in Provider.objects.filter(public_id__in=held, is_identified=False).order_by("pk"):
        is_full = rules.is_full(held_nano=held[row.public_id], total_nano=total, caps=caps)
        changed += _set_full(row, is_full=is_full, now=now)
    for row in Provider.objects.filter(is_held_full=True).exclude(public_id__in=held).order_by("pk"):
        changed += _set_full(row, is_full=False, now=now)
    return changed


def _set_full(row: Provider, *, is_full: bool, now: datetime) -> bool:
    if row.is_held_full == is_full:
        return False
    with transaction.atomic():
        review.set_held_full(provider_id=row.public_id, is_full=is_full, actor=SYSTEM_ACTOR, now=now)
        if is_full:
            _tell(row, "held_full", key=f"held-full:{row.public_id}:{now:%Y-%m-%d}", now=now)
    return True


def release(*, provider: str, now: datetime) -> int:
    """Let everything held for an identified provider mature; return the amount in nano. Safe to run twice."""
    with transaction.atomic():
        row = Provider.objects.filter(public_id=provider, is_identified=True).first()
        rows = _locked(provider) if row is not None else []
        if row is None or not rows:
            return 0
        total = sum(one.left_nano for one in rows)
        tx = _end(rows, "held_released", provider, total, now)
        EarningMaturity.objects.bulk_create(_maturity(one) for one in rows)
        if row.is_held_full:
            review.set_held_full(provider_id=provider, is_full=False, actor=SYSTEM_ACTOR, now=now)
        _record("held.released", row, tx, total, now)
    return total


def _maturity(held: HeldEarning) -> EarningMaturity:
    return EarningMaturity(
        tx_id=held.tx_id,
        provider=held.provider,
        amount_nano=held.amount_nano,
        clawed_nano=held.clawed_nano,
        matures_at=held.matures_at,
    )


def release_all(*, now: datetime) -> int:
    """Release what an earlier try left behind; return how many providers had something."""
    return sum(release(provider=provider, now=now) > 0 for provider in selectors.to_release())


def expire(*, now: datetime) -> int:
    """Forfeit what was held for longer than the pool's policy keeps it; return how many providers lost something."""
    days = settings.EARN_BEFORE_KYC_EXPIRY_DAYS
    if not days:
        return 0
    _remind(now, days)
    return sum(_expire(provider, now, days) > 0 for provider in selectors.to_expire(now=now, days=days))


def _expire(provider: str, now: datetime, days: int) -> int:
    with transaction.atomic():
        row = Provider.objects.select_related("organization").filter(public_id=provider, is_identified=False).first()
        rows = _locked(provider, held_before=now - timedelta(days=days)) if row is not None else []
        if row is None or not rows:
            return 0
        total = sum(one.left_nano for one in rows)
        tx = _end(rows, "held_expired", provider, total, now)
        _record("held.expired", row, tx, total, now)
        _tell(row, "held_expired", key=f"held-expired:{tx.pk}", now=now, amount=money.decimal_text(total))
    return total


def _remind(now: datetime, days: int) -> None:
    """Write to owners before something is forfeited, at each of the moments in REMINDED once."""
    for provider, since in selectors.oldest():
        ends_at = since + timedelta(days=days)
        passed = [ahead for ahead in REMINDED if ends_at - ahead <= now < ends_at]
        if passed:
            row = Provider.objects.select_related("organization").get(public_id=provider)
            key = f"held-expiring:{provider}:{ends_at:%Y-%m-%d}:{min(passed).days}"
            _tell(row, "held_expiring", key=key, now=now, ends_at=f"{ends_at:%Y-%m-%d}")


def _locked(provider: str, *, held_before: datetime | None = None) -> list[HeldEarning]:
    rows = HeldEarning.objects.select_for_update(of=("self",)).filter(provider=provider, ended_tx=None)
    if held_before is not None:
        rows = rows.filter(held_at__lte=held_before)
    return list(rows.order_by("pk"))


def _end(rows: list[HeldEarning], kind: str, provider: str, total: int, now: datetime) -> LedgerTx:
    digest = due.digest(rows)
    make = {"held_released": templates.held_released, "held_expired": templates.held_expired}[kind]
    tx = ledger.post(
        kind=kind,
        key=f"{kind}:{digest}",
        source_type="held_earnings",
        source_id=digest,
        transfers=make(provider=provider, amount=total, currency=settings.CURRENCY),
        actor=SYSTEM_ACTOR,
        now=now,
        note=f"{len(rows)} earnings",
    )
    HeldEarning.objects.filter(pk__in=[row.pk for row in rows]).update(ended_tx=tx)
    return tx


def _record(event: str, row: Provider, tx: LedgerTx, total: int, now: datetime) -> None:
    audit.record(
        actor=SYSTEM_ACTOR,
        event=event,
        subject=row.public_id,
        now=now,
        organization=row.organization.public_id,
        detail={"amount_nano": total, "transaction": str(tx.pk)},
    )


def _tell(row: Provider, template: str, *, key: str, now: datetime, **context: object) -> None:
    held = selectors.held_of(provider=row.public_id)
    tell_owners(
        organization=row.organization,
        key=key,
        template=template,
        context={
            "held": money.decimal_text(held.amount_nano),
            "cap": money.decimal_text(held.cap_nano),
            "currency": settings.CURRENCY.upper(),
            **context,
        },
        now=now,
        also=[row.contact_email],
    )
