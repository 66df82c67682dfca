"""Books what the owner paid to the tax office, and what it set against that or paid back."""

from datetime import datetime
from enum import StrEnum

from django.conf import settings
from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.models import LedgerTx
from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger, templates
from portal.core import db, money
from portal.core.errors import InvalidValue


class TaxBooking(StrEnum):
    """What happened with the tax office."""

    PAID = "tax_paid"
    SETTLED = "input_vat_settled"


_MAKERS = {
    TaxBooking.PAID: (templates.tax_paid, Kind.TAX_PAYABLE),
    TaxBooking.SETTLED: (templates.input_vat_settled, Kind.INPUT_VAT),
}


def book(*, booking: TaxBooking, amount_nano: int, reference: str, actor: Actor, now: datetime) -> LedgerTx:
    """Book a payment to (or a settlement by) the tax office once per reference. Raises InvalidValue, KeyReused."""
    maker, kind = _MAKERS[booking]
    reference = reference.strip()[:80]
    if not reference:
        raise InvalidValue("give the period or the tax office's reference", param="reference")
    with db.advisory_lock(f"poolhouse.billing.{kind.value}"), transaction.atomic():
        key = f"{booking.value}:{reference}"
        open_nano = ledger.balance(ledger.account(kind, currency=settings.CURRENCY))
        is_new = not LedgerTx.objects.filter(idempotency_key=key).exists()
        if is_new and not 0 < amount_nano <= open_nano:
            raise InvalidValue(f"{money.decimal_text(open_nano)} is open; book no more than that", param="amount")
        tx = ledger.post(
            kind=booking.value,
            key=key,
            source_type="tax",
            source_id=reference,
            transfers=maker(amount=amount_nano, currency=settings.CURRENCY),
            actor=actor,
            now=now,
            note=reference,
        )
        if is_new:
            audit.record(
                actor=actor,
                event=f"tax.{booking.value}",
                subject=str(tx.pk),
                now=now,
                detail={"nano": str(amount_nano), "reference": reference},
            )
    return tx
