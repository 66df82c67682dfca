"""Books lines of Stripe's own books that nothing else here explains: withdrawals, deposits, fees, adjustments."""

from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.errors import AlreadyMatched
from portal.billing.models import StripeMovement
from portal.billing.rules import stripe_kinds
from portal.billing.rules.stripe_kinds import Booking
from portal.billing.services import ledger, templates
from portal.billing.services.ledger import Transfer
from portal.core import money
from portal.core.errors import InvalidValue

SOURCE = "stripe_movement"


def book(*, movement_id: int, booking: Booking, note: str, actor: Actor, now: datetime) -> StripeMovement:
    """Book one unmatched line as what it is, once. Raises AlreadyMatched, InvalidValue."""
    with transaction.atomic():
        row = locks.stripe_movement(movement_id)
        if row.source_id:
            raise AlreadyMatched(f"{row.stripe_id} belongs to {row.source_type} {row.source_id}")
        if booking not in stripe_kinds.choices(net_minor=row.net_minor):
            raise InvalidValue(f"{row.stripe_id} moved {row.net_minor}: it cannot be {booking.value}", param="booking")
        row.tx = ledger.post(
            kind=booking.value,
            key=f"stripe:{row.stripe_id}",
            source_type=SOURCE,
            source_id=row.stripe_id,
            transfers=_transfers(row, booking),
            actor=actor,
            now=now,
            effective_at=min(now, row.moved_at),
            note=note[:240] or f"{row.type} {row.source}".strip(),
        )
        row.source_type, row.source_id = SOURCE, row.stripe_id
        row.save(update_fields=["tx", "source_type", "source_id"])
        audit.record(
            actor=actor,
            event="stripe_movement.booked",
            subject=row.stripe_id,
            now=now,
            detail={"as": booking.value, "net_minor": row.net_minor, "currency": row.currency, "note": note},
        )
    return row


def _transfers(row: StripeMovement, booking: Booking) -> list[Transfer]:
    """Book the amount as what it is; a fee that Stripe kept on the same line is a fee."""
    fee = abs(money.nano_from_minor(row.fee_minor, row.currency))
    amount = money.nano_from_minor(row.amount_minor, row.currency)
    if booking in {Booking.STRIPE_FEE, Booking.STRIPE_FEE_RETURNED, Booking.STRIPE_ADJUSTMENT}:
        return _one(booking, money.nano_from_minor(row.net_minor, row.currency), row.currency)
    fees = templates.stripe_fee if row.fee_minor > 0 else templates.stripe_fee_returned
    return [*_one(booking, amount, row.currency), *(fees(amount=fee, currency=row.currency) if fee else [])]


def _one(booking: Booking, signed: int, currency: str) -> list[Transfer]:
    amount, is_loss = abs(signed), signed < 0
    if booking == Booking.STRIPE_ADJUSTMENT:
        return templates.stripe_adjustment(amount=amount, is_loss=is_loss, currency=currency)
    makers = {
        Booking.OWNER_WITHDRAWAL: templates.owner_withdrawal,
        Booking.OWNER_DEPOSIT: templates.owner_deposit,
        Booking.STRIPE_FEE: templates.stripe_fee,
        Booking.STRIPE_FEE_RETURNED: templates.stripe_fee_returned,
    }
    return makers[booking](amount=amount, currency=currency)
