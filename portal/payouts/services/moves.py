"""The one way a payout changes its state, and the ledger entries that go with the moves."""

from datetime import datetime

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.services import ledger, templates
from portal.core import money
from portal.payouts.models import Payout, PayoutAttempt
from portal.payouts.rules import states
from portal.payouts.services import credit_notes, tax

LONGEST_REASON = 240


def move(payout: Payout, after: str, *, reason: str = "", actor: Actor, now: datetime) -> None:
    """Move the locked payout by the table and record it. Raises PayoutMoveRefused."""
    before = payout.state
    states.require_move(before=before, after=after)
    payout.state, payout.state_reason, payout.changed_at = after, reason[:LONGEST_REASON], now
    payout.save(update_fields=["state", "state_reason", "changed_at", "stripe_transfer", "sent_at", "approval_hash"])
    audit.record(
        actor=actor,
        event=f"payout.{after}",
        subject=payout.public_id,
        now=now,
        organization=payout.provider.organization.public_id,
        detail={
            "before": before,
            "reason": reason,
            "amount_minor": payout.amount_minor,
            "currency": payout.currency,
            "destination": payout.destination,
        },
    )


def post_reserved(payout: Payout, *, actor: Actor, now: datetime) -> None:
    """Book that the money is set aside, and what the provider bears of Stripe's fee."""
    _post(payout, "payout_reserved", actor=actor, now=now)
    if payout.fee_minor:
        _post(payout, "payout_fee", actor=actor, now=now)


def post_sent(payout: Payout, *, actor: Actor, now: datetime) -> None:
    """Book that Stripe has made the transfer."""
    _post(payout, "payout_sent", actor=actor, now=now)
    credit_notes.issue(payout=payout, now=now)


def post_paid_by_bank(payout: Payout, *, actor: Actor, now: datetime) -> None:
    """Book that the operator's bank has paid."""
    _post(payout, "payout_paid_by_bank", actor=actor, now=now)
    credit_notes.issue(payout=payout, now=now)


def post_returned_by_bank(payout: Payout, *, actor: Actor, now: datetime) -> None:
    """Book that the provider's bank sent the money back."""
    _post(payout, "bank_payout_returned", actor=actor, now=now)
    tax.take_back(payout, total_minor=payout.amount_minor, now=now)


def post_released(payout: Payout, *, actor: Actor, now: datetime) -> None:
    """Book that the money and the fee are available again; what has matured stays so."""
    _post(payout, "payout_rejected", actor=actor, now=now)
    if payout.fee_minor:
        _post(payout, "payout_fee_returned", actor=actor, now=now)
    tax.release(payout, now=now)


def _post(payout: Payout, kind: str, *, actor: Actor, now: datetime) -> None:
    makers = {
        "payout_reserved": templates.payout_reserved,
        "payout_sent": templates.payout_sent,
        "payout_rejected": templates.payout_rejected,
        "payout_paid_by_bank": templates.payout_paid_by_bank,
        "bank_payout_returned": templates.bank_payout_returned,
        "payout_fee": templates.payout_fee,
        "payout_fee_returned": templates.payout_fee_returned,
    }
    minor = payout.fee_minor if kind.startswith("payout_fee") else payout.amount_minor
    amount = money.nano_from_minor(minor, payout.currency)
    ledger.post(
        kind=kind,
        key=f"{kind}:{payout.public_id}",
        source_type="payout",
        source_id=payout.public_id,
        transfers=makers[kind](provider=payout.provider.public_id, amount=amount, currency=payout.currency),
        actor=actor,
        now=now,
    )


def add_attempt(payout: Payout, *, number: int, now: datetime) -> PayoutAttempt:
    """Freeze the parameters under a key of their own."""
    return PayoutAttempt.objects.create(
        payout=payout,
        number=number,
        idempotency_key=f"payout:{payout.public_id}:{number}",
        params={
            "amount_minor": payout.amount_minor,
            "currency": payout.currency,
            "destination": payout.destination,
            "group": payout.public_id,
            "payout": payout.public_id,
            "provider": payout.provider.public_id,
        },
        created_at=now,
    )
