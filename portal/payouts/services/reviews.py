"""An operator's decision about a payout that nobody could settle: both ways look at Stripe first."""

from datetime import datetime

from django.db import transaction

from portal.audit.services import Actor
from portal.integrations import queue, stripe
from portal.integrations.stripe_types import Transfer
from portal.payouts import locks
from portal.payouts.errors import PayoutFound, PayoutMoveRefused
from portal.payouts.models import Payout, PayoutState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import moves, outcomes


def listing(*, payout_public_id: str) -> list[Transfer]:
    """Return what Stripe has for this payout, for the operator to see before deciding."""
    payout = selectors.payout(payout_public_id)
    return stripe.payments().transfers_of(group=payout.public_id)


def retry(*, payout_public_id: str, actor: Actor, now: datetime) -> Payout:
    """Send again under a new key, after Stripe was seen to have nothing. Raises PayoutFound, PayoutMoveRefused."""
    payout = _reviewed(payout_public_id, now)
    with transaction.atomic():
        payout = locks.payout(payout.pk)
        moves.move(payout, PayoutState.APPROVED, reason="sent again by an operator", actor=actor, now=now)
        moves.add_attempt(payout, number=selectors.attempt_of(payout).number + 1, now=now)
        queue.after_commit("payouts.send_payout", payout_id=payout.pk)
    return payout


def release(*, payout_public_id: str, reason: str, actor: Actor, now: datetime) -> Payout:
    """Give up, after Stripe was seen to have nothing, and free the money. Raises PayoutFound, PayoutMoveRefused."""
    payout = _reviewed(payout_public_id, now)
    with transaction.atomic():
        payout = locks.payout(payout.pk)
        moves.move(payout, PayoutState.REJECTED, reason=reason, actor=actor, now=now)
        moves.post_released(payout, actor=actor, now=now)
    return payout


def _reviewed(public_id: str, now: datetime) -> Payout:
    """Return the payout if it waits for a decision and Stripe has no transfer for it; one that is there settles it."""
    payout = selectors.payout(public_id)
    if payout.state != PayoutState.NEEDS_REVIEW:
        raise PayoutMoveRefused(f"a payout that is {payout.state} needs no decision")
    found = stripe.payments().transfers_of(group=payout.public_id)
    if found:
        outcomes.transferred(selectors.attempt_of(payout), found[0], now=now)
        raise PayoutFound(f"Stripe has made {found[0].id} for this payout")
    return payout
