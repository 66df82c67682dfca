"""Sends one refund: claim, commit, call Stripe outside any transaction, write what came.

An answer that nobody has is looked up by the charge's refunds, which carry our own id; only a refund that is not there
is sent again, under the same key, and only while Stripe surely remembers that key.
"""

from datetime import datetime

from django.db import transaction

from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import Refund, RefundAttempt, RefundState
from portal.billing.rules.refunds import RefundMoveRefused
from portal.billing.selectors import refunds as selectors
from portal.billing.services import freeze, refund_moves, refund_outcomes
from portal.integrations import queue, stripe
from portal.integrations.stripe_errors import (
    InsufficientFunds,
    PaymentError,
    PaymentOutcomeUnknown,
    PaymentRateLimited,
    PaymentRejected,
)
from portal.integrations.stripe_types import Refund as Seen
from portal.integrations.stripe_types import RefundOrder


def send(*, refund_id: int, now: datetime) -> Refund:
    """Send an approved refund and return it as it is afterwards; one that is not to be sent is returned as it is."""
    with transaction.atomic():
        refund = locks.refund(refund_id)
        is_resting = refund.next_try_at is not None and now < refund.next_try_at
        if refund.state != RefundState.RESERVED or is_resting or freeze.is_frozen():
            return refund
        attempt = _claimed(refund, now)
    return _call(attempt, now)


def reconcile(*, refund_id: int, now: datetime) -> Refund:
    """Find out what became of a refund of unknown outcome. Raises PaymentError where Stripe cannot be asked."""
    with transaction.atomic():
        refund = locks.refund(refund_id)
        if refund.state == RefundState.SENDING and refund.changed_at < now - stripe.SILENT_AFTER:
            refund_moves.move(refund, RefundState.UNKNOWN, reason="the sender fell silent", now=now)
        if refund.state != RefundState.UNKNOWN:
            return refund
    attempt = selectors.attempt_of(refund=refund)
    found = at_stripe(refund)
    if found is not None:
        return refund_outcomes.seen(refund_id=refund.pk, found=found, now=now)
    return _not_found(attempt, now)


def at_stripe(refund: Refund) -> Seen | None:
    """Return what Stripe has for this refund, by our id. Raises PaymentError."""
    found = stripe.payments().refunds_of(charge=refund.charge)
    return next((one for one in found if one.reference == refund.public_id), None)


def retry(*, refund_public_id: str, now: datetime, actor: Actor) -> Refund:
    """Send again under a new key, once Stripe was seen to have nothing. Raises RefundMoveRefused, PaymentError."""
    refund = _reviewed(refund_public_id, now)
    with transaction.atomic():
        refund = locks.refund(refund.pk)
        number = selectors.attempt_of(refund=refund).number + 1
        refund_moves.move(refund, RefundState.RESERVED, reason="sent again by an operator", actor=actor, now=now)
        refund_moves.add_attempt(refund, number=number, now=now)
        queue.after_commit("billing.send_refund", refund_id=refund.pk)
    return refund


def give_up(*, refund_public_id: str, reason: str, actor: Actor, now: datetime) -> Refund:
    """End a refund that Stripe was seen not to have. Raises RefundMoveRefused, PaymentError."""
    refund = _reviewed(refund_public_id, now)
    with transaction.atomic():
        refund = locks.refund(refund.pk)
        refund_moves.book_given_up(refund, actor=actor, now=now)
        refund_moves.move(refund, RefundState.FAILED, reason=reason, actor=actor, now=now)
    return refund


def _claimed(refund: Refund, now: datetime) -> RefundAttempt:
    refund.next_try_at = None
    refund_moves.move(refund, RefundState.SENDING, now=now)
    return selectors.attempt_of(refund=refund)


def _call(attempt: RefundAttempt, now: datetime) -> Refund:
    """Make the refund with the attempt's frozen parameters and key, and write what came of it."""
    RefundAttempt.objects.filter(pk=attempt.pk, first_sent_at=None).update(first_sent_at=now)
    try:
        made = stripe.payments().create_refund(key=attempt.idempotency_key, order=RefundOrder(**attempt.params))
    except InsufficientFunds as error:
        return refund_outcomes.out_of_funds(attempt, error, now=now)
    except PaymentRateLimited as error:
        return refund_outcomes.postponed(attempt, reason=f"Stripe asks to come later: {error.message}", now=now)
    except PaymentOutcomeUnknown as error:
        return refund_outcomes.unknown(attempt, reason=error.message, now=now)
    except PaymentRejected as error:
        return _refused(attempt, error, now)
    return refund_outcomes.seen(refund_id=attempt.refund_id, found=made, now=now)


def _refused(attempt: RefundAttempt, error: PaymentRejected, now: datetime) -> Refund:
    """Stripe said no; a refund of ours that is there all the same has been made: already done is done."""
    try:
        found = at_stripe(Refund.objects.get(pk=attempt.refund_id))
    except PaymentError as unsure:
        return refund_outcomes.unknown(attempt, reason=unsure.message, now=now)
    if found is not None:
        return refund_outcomes.seen(refund_id=attempt.refund_id, found=found, now=now)
    queue.after_commit("billing.read_refunds", charge=attempt.params["charge"])
    return refund_outcomes.refused(attempt, error, now=now)


def _not_found(attempt: RefundAttempt, now: datetime) -> Refund:
    """Stripe has no such refund: never called → approved again; young key → the same call again; else a person."""
    if freeze.is_frozen():
        return Refund.objects.get(pk=attempt.refund_id)
    if attempt.first_sent_at is None:
        return refund_outcomes.postponed(attempt, reason="the sender stopped before it called", now=now)
    if now - attempt.first_sent_at >= stripe.SAME_KEY_FOR:
        return refund_outcomes.to_review(
            attempt, reason="not at Stripe, and the key is too old to be used again", now=now
        )
    with transaction.atomic():
        refund = locks.refund(attempt.refund_id)
        if refund.state != RefundState.UNKNOWN:
            return refund
        _claimed(refund, now)
    return _call(attempt, now)


def _reviewed(public_id: str, now: datetime) -> Refund:
    """Return the refund if it waits for a decision and Stripe has nothing for it; one that is there settles it."""
    refund = selectors.refund(public_id=public_id)
    if refund.state != RefundState.NEEDS_REVIEW:
        raise RefundMoveRefused(f"a refund that is {refund.state} needs no decision")
    found = at_stripe(refund)
    if found is not None:
        refund_outcomes.seen(refund_id=refund.pk, found=found, now=now)
        raise RefundMoveRefused(f"Stripe has made {found.id} for this refund")
    return refund
