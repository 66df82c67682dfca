"""What happens at Stripe after a transfer: the way to the bank is shown, a reversal is booked."""

from datetime import datetime

from django.db import transaction
from django.db.models import Q

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import ledger, templates
from portal.core import money
from portal.integrations import stripe
from portal.integrations.stripe_types import BankPayout
from portal.payouts import locks
from portal.payouts.models import BankLeg, Payout, PayoutState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import moves, tax

# How a bank payout goes on: a failure may follow a success, nothing else goes back.
_STEPS = {"pending": 0, "in_transit": 1, "paid": 2, "canceled": 2, "failed": 3}


def note_bank_payout(*, account: str, bank_payout: str, now: datetime) -> int:
    """Show the bank's answer on the payouts that this bank payout carried; return how many. Nothing is booked.

    One bank payout may carry several of our payouts; one that failed may be followed by another with the same money.
    """
    seen = stripe.payments().bank_payout(account=account, payout=bank_payout)
    carried = Q(stripe_transfer__in=seen.transfers) | Q(bank_legs__bank_payout__in=seen.repeats)
    found = Payout.objects.filter(carried, destination=account).distinct().order_by("pk").values_list("pk", flat=True)
    for payout_id in list(found):
        _note_leg(payout_id, seen, now)
    return len(found)


def _note_leg(payout_id: int, seen: BankPayout, now: datetime) -> None:
    """Keep the leg, and show on the payout the one that was made last; a late reader never turns a leg back."""
    with transaction.atomic():
        payout = locks.payout(payout_id)
        known = BankLeg.objects.filter(payout=payout, bank_payout=seen.id).first()
        if known is not None and _STEPS.get(known.status, 0) > _STEPS.get(seen.status, 0):
            return
        fields = {"status": seen.status[:16], "arrives_at": seen.arrives_at, "failure": seen.failure[:64]}
        BankLeg.objects.update_or_create(
            payout=payout, bank_payout=seen.id, defaults={**fields, "made_at": seen.made_at, "changed_at": now}
        )
        last = BankLeg.objects.filter(payout=payout).latest("made_at", "pk")
        payout.bank_state, payout.bank_arrives_at, payout.bank_failure = last.status, last.arrives_at, last.failure
        payout.save(update_fields=["bank_state", "bank_arrives_at", "bank_failure"])


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
    tax.take_back(payout, total_minor=total, now=now)
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
