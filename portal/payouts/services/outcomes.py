"""What became of an attempt, written once: transferred, refused, short of funds, later, or not known.

An answer that comes late, after someone else has found out, changes nothing.
"""

import logging
from datetime import datetime

from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError
from portal.integrations.stripe_types import Transfer
from portal.payouts import locks
from portal.payouts.models import Payout, PayoutAttempt, PayoutState
from portal.payouts.services import moves

log = logging.getLogger(__name__)
_WAITING = frozenset({PayoutState.SENDING, PayoutState.UNKNOWN})
_SETTLEABLE = _WAITING | {PayoutState.NEEDS_REVIEW}


def transferred(attempt: PayoutAttempt, transfer: Transfer, *, now: datetime) -> Payout:
    """Book the transfer that Stripe has made; one that is not what was asked for goes to an operator."""
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state not in _SETTLEABLE:
            return _late(payout, "transferred")
        problem = _difference(attempt, transfer)
        if problem:
            _finish(attempt, "mismatch", now, message=problem)
            return _to_review(payout, f"{transfer.id} differs: {problem}", now)
        payout.stripe_transfer, payout.sent_at = transfer.id, now
        moves.post_sent(payout, actor=SYSTEM_ACTOR, now=now)
        moves.move(payout, PayoutState.TRANSFERRED, actor=SYSTEM_ACTOR, now=now)
        _finish(attempt, "transferred", now)
    return payout


def rejected(attempt: PayoutAttempt, *, code: str, message: str, now: datetime) -> Payout:
    """Stripe refused for good: the money is available again, with its maturity; the next run makes a new payout."""
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state not in _WAITING:
            return _late(payout, "rejected")
        _to_sending(payout, now)
        moves.post_released(payout, actor=SYSTEM_ACTOR, now=now)
        moves.move(payout, PayoutState.REJECTED, reason=f"{code}: {message}", actor=SYSTEM_ACTOR, now=now)
        _finish(attempt, "rejected", now, code=code, message=message)
    return payout


def out_of_funds(attempt: PayoutAttempt, error: PaymentError, *, now: datetime) -> Payout:
    """The platform's balance did not suffice: wait, under a new key, because the old one answers the same for a day."""
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state not in _WAITING:
            return _late(payout, "waiting_funds")
        _to_sending(payout, now)
        _finish(attempt, "insufficient", now, code=error.stripe_code, message=error.message)
        moves.add_attempt(payout, number=attempt.number + 1, now=now)
        moves.move(payout, PayoutState.WAITING_FUNDS, reason=error.message, actor=SYSTEM_ACTOR, now=now)
    return payout


def postponed(attempt: PayoutAttempt, *, reason: str, now: datetime) -> Payout:
    """Nothing was sent: the payout stays approved, and the same key is used later."""
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state != PayoutState.SENDING:
            return _late(payout, "postponed")
        moves.move(payout, PayoutState.APPROVED, reason=reason, actor=SYSTEM_ACTOR, now=now)
    return payout


def unknown(attempt: PayoutAttempt, *, reason: str, now: datetime) -> Payout:
    """Nobody knows whether Stripe did it: the reservation stays until it is found out."""
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state != PayoutState.SENDING:
            return _late(payout, "unknown")
        moves.move(payout, PayoutState.UNKNOWN, reason=reason, actor=SYSTEM_ACTOR, now=now)
    return payout


def to_review(attempt: PayoutAttempt, *, reason: str, now: datetime) -> Payout:
    """Only an operator may go on."""
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state not in _WAITING:
            return _late(payout, "needs_review")
        return _to_review(payout, reason, now)


def _to_review(payout: Payout, reason: str, now: datetime) -> Payout:
    if payout.state == PayoutState.SENDING:
        moves.move(payout, PayoutState.UNKNOWN, reason=reason, actor=SYSTEM_ACTOR, now=now)
    if payout.state == PayoutState.UNKNOWN:
        moves.move(payout, PayoutState.NEEDS_REVIEW, reason=reason, actor=SYSTEM_ACTOR, now=now)
    log.error("payout.needs_review", extra={"payout": payout.public_id, "reason": reason})
    return payout


def _to_sending(payout: Payout, now: datetime) -> None:
    """A definitive answer of an attempt that was meanwhile called unknown still counts."""
    if payout.state == PayoutState.UNKNOWN:
        moves.move(payout, PayoutState.SENDING, actor=SYSTEM_ACTOR, now=now)


def _late(payout: Payout, outcome: str) -> Payout:
    log.info("payout.late_answer", extra={"payout": payout.public_id, "state": payout.state, "outcome": outcome})
    return payout


def _difference(attempt: PayoutAttempt, transfer: Transfer) -> str:
    pairs = [
        ("amount", attempt.params["amount_minor"], transfer.amount_minor),
        ("currency", attempt.params["currency"], transfer.currency),
        ("destination", attempt.params["destination"], transfer.destination),
        ("livemode", stripe.is_live_mode(), transfer.is_live),
    ]
    return next((f"{name} {theirs} instead of {ours}" for name, ours, theirs in pairs if ours != theirs), "")


def _finish(attempt: PayoutAttempt, result: str, now: datetime, *, code: str = "", message: str = "") -> None:
    PayoutAttempt.objects.filter(pk=attempt.pk).update(
        result=result, finished_at=now, error_code=code[:64], error_message=message[:400]
    )
