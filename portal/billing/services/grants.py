"""Promotional credit: given by the operator, spent first, never refunded."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.models import LedgerTx
from portal.billing.services import ledger, templates
from portal.integrations import bus


def grant_promo(
    *, organization: Organization, amount_nano: int, key: str, actor: Actor, now: datetime, note: str = ""
) -> LedgerTx:
    """Give an organization promotional credit once per `key`. Raises UnsoundTransfer, KeyReused."""
    with transaction.atomic():
        tx = ledger.post(
            kind="promo_grant",
            key=f"promo:{organization.public_id}:{key}",
            source_type="grant",
            source_id=key,
            transfers=templates.promo_grant(
                organization=organization.public_id, amount=amount_nano, currency=settings.CURRENCY
            ),
            actor=actor,
            now=now,
            note=note,
        )
        audit.record(
            actor=actor,
            event="credit.granted",
            subject=organization.public_id,
            now=now,
            organization=organization.public_id,
            detail={"tx": str(tx.pk), "nano": str(amount_nano)},
        )
        bus.announce("leases", str(organization.pk))
    return tx
