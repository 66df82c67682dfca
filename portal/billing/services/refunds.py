"""Giving unused credit back to the card that paid: asked for, approved, withdrawn; its money is aside at once."""

from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.models import Organization
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import Refund, RefundOrigin, RefundState, TopUp
from portal.billing.rules import amounts
from portal.billing.rules import refunds as rules
from portal.billing.selectors import refunds as selectors
from portal.billing.selectors import topups as topup_selectors
from portal.billing.services import refund_moves
from portal.billing.services.refund_moves import Wish
from portal.core.errors import InvalidValue
from portal.integrations import queue


class NotRefundable(InvalidValue):
    """The amount is more than what of the purchase is unspent, not held, not refunded and not disputed."""

    code = "not_refundable"


class NotAnUnsentRefund(rules.RefundMoveRefused):
    """The refund is already with Stripe, or over."""

    code = "refund_already_sent"


def ask(
    *, organization: Organization, topup_public_id: str, amount_minor: int, note: str, actor: Actor, now: datetime
) -> Refund:
    """Take a customer's wish: it waits for the operator, unless refunds are automatic and nothing speaks against it.

    Raises NotFound, NotRefundable.
    """
    topup = topup_selectors.topup_of(organization=organization, public_id=topup_public_id)
    is_automatic = settings.REFUNDS == "automatic" and not organization.stopped_for
    state = RefundState.RESERVED if is_automatic else RefundState.REQUESTED
    return _begin(topup, Wish(amount_minor, RefundOrigin.CUSTOMER, state, note), actor, now)


def give(*, topup: TopUp, amount_minor: int, note: str, actor: Actor, now: datetime) -> Refund:
    """Give back what an operator decides. Raises NotRefundable."""
    return _begin(topup, Wish(amount_minor, RefundOrigin.OPERATOR, RefundState.RESERVED, note), actor, now)


def approve(*, refund_public_id: str, actor: Actor, now: datetime) -> Refund:
    """Let a refund that was asked for go out. Raises NotFound, RefundMoveRefused."""
    with transaction.atomic():
        refund = locks.refund(selectors.refund(public_id=refund_public_id).pk)
        refund_moves.move(refund, RefundState.RESERVED, actor=actor, now=now)
        _send_soon(refund, now)
    return refund


def cancel(*, refund_public_id: str, reason: str, actor: Actor, now: datetime) -> Refund:
    """Take back a refund that nobody has sent to Stripe: its money is credit again. Raises NotAnUnsentRefund."""
    with transaction.atomic():
        refund = locks.refund(selectors.refund(public_id=refund_public_id).pk)
        attempt = refund.attempts.order_by("-number").first()
        is_untouched = attempt is None or (attempt.first_sent_at is None or bool(attempt.result))
        if refund.state not in {RefundState.REQUESTED, RefundState.RESERVED} or not is_untouched:
            raise NotAnUnsentRefund(f"a refund that is {refund.state} cannot be taken back")
        refund_moves.book_given_up(refund, actor=actor, now=now)
        refund_moves.move(refund, RefundState.CANCELED, reason=reason, actor=actor, now=now)
    return refund


def _begin(topup: TopUp, wish: Wish, actor: Actor, now: datetime) -> Refund:
    with transaction.atomic():
        topup = locks.topup(topup.pk)
        most = selectors.refundable(topup=topup)
        if not 0 < wish.amount_minor <= most:
            raise NotRefundable(
                _bounds(topup, most), param="amount", fix="Only unspent credit that you bought goes back."
            )
        refund = refund_moves.set_aside(topup=topup, wish=wish, actor=actor, now=now)
        if refund.debt_nano:
            raise NotRefundable(_bounds(topup, 0), param="amount", fix="Try again once running requests have ended.")
        if wish.state == RefundState.RESERVED:
            _send_soon(refund, now)
    return refund


def _send_soon(refund: Refund, now: datetime) -> None:
    refund_moves.add_attempt(refund, number=1, now=now)
    queue.after_commit("billing.send_refund", refund_id=refund.pk)


def _bounds(topup: TopUp, most: int) -> str:
    if not most:
        return "Nothing of this purchase can be given back now."
    return f"At most {amounts.written_minor(most, topup.currency)} of this purchase can be given back."
