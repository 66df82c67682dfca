"""Operators say yes to exactly one amount, currency and destination; or hold a payout back, or cancel it."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.models import User
from portal.audit.services import Actor
from portal.integrations import queue
from portal.payouts import locks
from portal.payouts.errors import NotAnOperator, PayoutMoveRefused
from portal.payouts.models import Payout, PayoutApproval, PayoutState, Rail
from portal.payouts.rules import approval
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import destinations, moves


def approve(*, payout_public_id: str, approver: User, actor: Actor, now: datetime) -> Payout:
    """Note one operator's yes; with PAYOUT_APPROVERS of them the payout is approved and, by Stripe, sent.

    Raises NotFound, NotAnOperator, PayoutMoveRefused, DestinationHeld.
    """
    if not approver.is_operator:
        raise NotAnOperator("only operators approve payouts")
    found = selectors.payout(payout_public_id)
    with transaction.atomic():
        payout = locks.payout(found.pk)
        if payout.state != PayoutState.RESERVED:
            raise PayoutMoveRefused(f"a payout that is {payout.state} cannot be approved")
        destinations.require_no_hold(provider=payout.provider, now=now)
        payout.approval_hash = current_hash(payout)
        PayoutApproval.objects.get_or_create(
            payout=payout, approved_by=approver, approval_hash=payout.approval_hash, defaults={"approved_at": now}
        )
        if has_enough(payout):
            moves.move(payout, PayoutState.APPROVED, actor=actor, now=now)
            if payout.rail == Rail.STRIPE:
                queue.after_commit("payouts.send_payout", payout_id=payout.pk)
        else:
            payout.save(update_fields=["approval_hash"])
    return payout


def current_hash(payout: Payout) -> str:
    """Return the hash of what the payout would send now: the frozen parameters of the attempt in force."""
    params = selectors.attempt_of(payout).params
    return approval.approval_hash(
        payout=payout.public_id,
        amount_minor=int(params["amount_minor"]),
        currency=str(params["currency"]),
        destination=str(params["destination"]),
    )


def has_enough(payout: Payout) -> bool:
    """Tell whether enough operators have said yes to what would be sent now."""
    rows = PayoutApproval.objects.filter(payout=payout, approval_hash=current_hash(payout))
    return rows.values("approved_by").distinct().count() >= settings.PAYOUT_APPROVERS


def hold(*, payout_public_id: str, reason: str, actor: Actor, now: datetime) -> Payout:
    """Keep a payout back before it is sent. Raises PayoutMoveRefused."""
    return _move(payout_public_id, PayoutState.HELD, reason, actor, now)


def resume(*, payout_public_id: str, actor: Actor, now: datetime) -> Payout:
    """Let a held payout go on; it needs its approvals again. Raises PayoutMoveRefused."""
    with transaction.atomic():
        payout = _move(payout_public_id, PayoutState.RESERVED, "", actor, now)
        destinations.require_no_hold(provider=payout.provider, now=now)
        PayoutApproval.objects.filter(payout=payout).delete()
    return payout


def cancel(*, payout_public_id: str, reason: str, actor: Actor, now: datetime) -> Payout:
    """Give up a payout before it is sent and free its money. Raises PayoutMoveRefused."""
    with transaction.atomic():
        payout = _move(payout_public_id, PayoutState.CANCELED, reason, actor, now)
        moves.post_released(payout, actor=actor, now=now)
    return payout


def _move(public_id: str, after: str, reason: str, actor: Actor, now: datetime) -> Payout:
    found = selectors.payout(public_id)
    with transaction.atomic():
        payout = locks.payout(found.pk)
        moves.move(payout, after, reason=reason, actor=actor, now=now)
    return payout
