"""What happens at Stripe after a transfer: the bank's answer is shown, a reversal is booked."""

from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import ledger, templates
from portal.core import money
from portal.integrations import stripe
from portal.payouts import locks
from portal.payouts.models import Payout, PayoutState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import moves


def note_bank_payout(*, account: str, bank_payout: str) -> int:
    """Show the bank's answer on the payouts that this bank payout carried; return how many. Nothing is booked."""
    seen = stripe.payments().bank_payout(account=account, payout=bank_payout)
    rows = Payout.objects.filter(stripe_transfer__in=seen.transfers, destination=account)
    return rows.update(bank_state=seen.status[:16])


def note_transfer(*, transfer: str, now: datetime) -> Payout | None:
    """Book the part of a transfer that Stripe has taken back since we last looked; None where it is not ours."""
    seen = stripe.payments().transfer(transfer=transfer)
    found = selectors.by_transfer(transfer)
    if found is None:
        return None
    with transaction.atomic():
        payout = locks.payout(found.pk)
        delta = seen.reversed_minor - payout.reversed_minor
        if delta > 0:
            _book_reversal(payout, delta, seen.reversed_minor, now)
    return payout


def _book_reversal(payout: Payout, delta: int, total: int, now: datetime) -> None:
    ledger.post(
        kind="transfer_reversed",
        key=f"transfer-reversed:{payout.stripe_transfer}:{total}",
        source_type="payout",
        source_id=payout.public_id,
        transfers=templates.transfer_reversed(
            provider=payout.provider.public_id,
            amount=money.nano_from_minor(delta, payout.currency),
            currency=payout.currency,
        ),
        actor=SYSTEM_ACTOR,
        now=now,
    )
    payout.reversed_minor = total
    payout.save(update_fields=["reversed_minor"])
    if total == payout.amount_minor:
        moves.move(payout, PayoutState.REVERSED, reason="taken back at Stripe", actor=SYSTEM_ACTOR, now=now)
        return
    audit.record(
        actor=SYSTEM_ACTOR,
        event="payout.partly_reversed",
        subject=payout.public_id,
        now=now,
        organization=payout.provider.organization.public_id,
        detail={"reversed_minor": total},
    )
