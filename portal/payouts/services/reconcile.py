"""Finds out what became of payouts nobody knows about: look at Stripe first, then the same key, then a person.

Never a new key without an operator.
"""

import logging
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import freeze
from portal.integrations import queue, stripe
from portal.integrations.stripe_errors import PaymentError
from portal.payouts import locks
from portal.payouts.models import Payout, PayoutAttempt, PayoutState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import moves, outcomes, sending

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reconciled:
    """What was found out: each payout by its public id and the state it is in now."""

    states: dict[str, str] = field(default_factory=dict)


def reconcile_unknown(*, now: datetime) -> Reconciled:
    """Look into every payout of unknown outcome; one that fails does not stop the others."""
    found = Reconciled()
    for payout_id in selectors.to_reconcile(sent_before=now - stripe.SILENT_AFTER):
        payout = reconcile(payout_id=payout_id, now=now)
        found.states[payout.public_id] = payout.state
    return found


def reconcile(*, payout_id: int, now: datetime) -> Payout:
    """Find out about one payout. Where Stripe cannot be asked it stays unknown."""
    attempt = _take(payout_id, now)
    if attempt is None:
        return Payout.objects.get(pk=payout_id)
    try:
        listed = stripe.payments().transfers_of(group=str(attempt.params["group"]))
    except PaymentError as error:
        log.warning("payout.reconcile_failed", extra={"attempt": attempt.idempotency_key, "code": error.code})
        return Payout.objects.get(pk=payout_id)
    if len(listed) > 1:
        return outcomes.to_review(attempt, reason=f"{len(listed)} transfers at Stripe carry this payout", now=now)
    if listed:
        return outcomes.transferred(attempt, listed[0], now=now)
    return _not_found(attempt, now)


def _take(payout_id: int, now: datetime) -> PayoutAttempt | None:
    """Mark a silent sender's payout as unknown, and return the attempt in force of an unknown payout."""
    with transaction.atomic():
        payout = locks.payout(payout_id)
        if payout.state == PayoutState.SENDING and payout.changed_at < now - stripe.SILENT_AFTER:
            moves.move(payout, PayoutState.UNKNOWN, reason="the sender fell silent", actor=SYSTEM_ACTOR, now=now)
        return selectors.attempt_of(payout) if payout.state == PayoutState.UNKNOWN else None


def _not_found(attempt: PayoutAttempt, now: datetime) -> Payout:
    """Stripe has no such transfer: never called → approved again; young key → the same call again; else a person."""
    if freeze.is_frozen():
        return Payout.objects.get(pk=attempt.payout_id)
    if attempt.first_sent_at is None:
        return _never_called(attempt, now)
    if now - attempt.first_sent_at >= stripe.SAME_KEY_FOR:
        return outcomes.to_review(attempt, reason="not at Stripe, and the key is too old to be used again", now=now)
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state != PayoutState.UNKNOWN:
            return payout
        sending.claimed(payout, now)
    return sending.call(attempt, now=now)


def _never_called(attempt: PayoutAttempt, now: datetime) -> Payout:
    with transaction.atomic():
        payout = locks.payout(attempt.payout_id)
        if payout.state == PayoutState.UNKNOWN:
            moves.move(
                payout, PayoutState.APPROVED, reason="the sender stopped before it called", actor=SYSTEM_ACTOR, now=now
            )
            queue.after_commit("payouts.send_payout", payout_id=payout.pk)
    return payout
