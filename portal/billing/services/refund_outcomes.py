"""What became of a refund, written once: with Stripe, done, refused, later, or not known.

Stripe's newer word moves the row only forward; a word that comes late or twice changes nothing.
"""

import logging
from datetime import datetime, timedelta

from django.db import transaction

from portal.billing import locks
from portal.billing.models import Refund, RefundAttempt, RefundState
from portal.billing.rules import refunds as rules
from portal.billing.services import refund_moves
from portal.integrations.stripe_errors import PaymentError
from portal.integrations.stripe_types import Refund as Seen

log = logging.getLogger(__name__)
_WAITING = frozenset({RefundState.SENDING, RefundState.UNKNOWN})
TRY_AGAIN_AFTER = timedelta(minutes=10)


def seen(*, refund_id: int, found: Seen, now: datetime) -> Refund:
    """Bring the refund to where Stripe says it is; one that is not what was asked for goes to an operator."""
    with transaction.atomic():
        refund = locks.refund(refund_id)
        problem = _difference(refund, found)
        if problem:
            return _to_review(refund, f"{found.id} differs: {problem}", now)
        after = rules.state_of(found.status)
        if refund.state not in {RefundState.FAILED, RefundState.CANCELED}:
            refund.stripe_refund = found.id
            _book(refund, found, after, now)
        if rules.may_become(before=refund.state, after=after):
            refund_moves.move(refund, after, reason=found.failure, now=now)
            _finish(refund, after, now, message=found.failure)
        else:
            refund.save()
    return refund


def refused(attempt: RefundAttempt, error: PaymentError, *, now: datetime) -> Refund:
    """Stripe refused for good: the money is credit again."""
    with transaction.atomic():
        refund = locks.refund(attempt.refund_id)
        if refund.state not in _WAITING:
            return _late(refund, "failed")
        refund_moves.book_given_up(refund, now=now)
        refund_moves.move(refund, RefundState.FAILED, reason=f"{error.stripe_code}: {error.message}", now=now)
        _finish(refund, "failed", now, code=error.stripe_code, message=error.message)
    return refund


def out_of_funds(attempt: RefundAttempt, error: PaymentError, *, now: datetime) -> Refund:
    """The pool's balance did not suffice: later, under a new key, because the old one answers the same for a day."""
    with transaction.atomic():
        refund = locks.refund(attempt.refund_id)
        if refund.state not in _WAITING:
            return _late(refund, "insufficient")
        _finish(refund, "insufficient", now, code=error.stripe_code, message=error.message)
        refund_moves.add_attempt(refund, number=attempt.number + 1, now=now)
        refund.next_try_at = now + TRY_AGAIN_AFTER
        refund_moves.move(refund, RefundState.RESERVED, reason=f"Stripe: {error.message}", now=now)
    return refund


def postponed(attempt: RefundAttempt, *, reason: str, now: datetime) -> Refund:
    """Stripe did not begin: the same key is used later."""
    with transaction.atomic():
        refund = locks.refund(attempt.refund_id)
        if refund.state not in _WAITING:
            return _late(refund, "postponed")
        refund.next_try_at = now + timedelta(minutes=1)
        refund_moves.move(refund, RefundState.RESERVED, reason=reason, now=now)
    return refund


def unknown(attempt: RefundAttempt, *, reason: str, now: datetime) -> Refund:
    """Nobody knows whether Stripe did it: the money stays aside until it is found out."""
    with transaction.atomic():
        refund = locks.refund(attempt.refund_id)
        if refund.state != RefundState.SENDING:
            return _late(refund, "unknown")
        refund_moves.move(refund, RefundState.UNKNOWN, reason=reason, now=now)
    return refund


def to_review(attempt: RefundAttempt, *, reason: str, now: datetime) -> Refund:
    """Only an operator may go on."""
    with transaction.atomic():
        return _to_review(locks.refund(attempt.refund_id), reason, now)


def _book(refund: Refund, found: Seen, after: str, now: datetime) -> None:
    """Follow Stripe's balance: money is gone once a line took it, and nothing is given up before it is back."""
    refund_moves.lock_accounts(refund)
    if found.movement or after == RefundState.SUCCEEDED:
        refund_moves.book_sent(refund, now=now)
    if after == RefundState.FAILED and rules.may_become(before=refund.state, after=after):
        refund_moves.book_given_up(refund, now=now)


def _difference(refund: Refund, found: Seen) -> str:
    pairs = [
        ("amount", refund.amount_minor, found.amount_minor),
        ("currency", refund.currency, found.currency),
        ("charge", refund.charge, found.charge),
        ("refund", refund.stripe_refund or found.id, found.id),
    ]
    return next((f"{name} {theirs} instead of {ours}" for name, ours, theirs in pairs if ours != theirs), "")


def _to_review(refund: Refund, reason: str, now: datetime) -> Refund:
    if refund.state == RefundState.SENDING:
        refund_moves.move(refund, RefundState.UNKNOWN, reason=reason, now=now)
    if refund.state == RefundState.UNKNOWN:
        refund_moves.move(refund, RefundState.NEEDS_REVIEW, reason=reason, now=now)
    log.error("refund.needs_review", extra={"refund": refund.public_id, "reason": reason})
    return refund


def _late(refund: Refund, outcome: str) -> Refund:
    log.info("refund.late_answer", extra={"refund": refund.public_id, "state": refund.state, "outcome": outcome})
    return refund


def _finish(refund: Refund, result: str, now: datetime, *, code: str = "", message: str = "") -> None:
    attempt = refund.attempts.order_by("-number").first()
    if attempt is not None:
        RefundAttempt.objects.filter(pk=attempt.pk).update(
            result=result, finished_at=now, error_code=code[:64], error_message=message[:400]
        )
