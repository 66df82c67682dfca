"""An operator takes a transfer back at Stripe: the row first, one key for ever, and the ledger by what Stripe says.

It works as far as the provider's account at Stripe still has the money. Where the answer is lost the reversal stays
requested, and the same call is made again until Stripe has answered it.
"""

import logging
from datetime import datetime

from django.db import IntegrityError, transaction

from portal.accounts.models import User
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.services import freeze
from portal.core.errors import InvalidValue
from portal.integrations import queue, stripe
from portal.integrations.stripe_errors import PaymentError, PaymentRejected
from portal.payouts import locks
from portal.payouts.errors import NotAnOperator, PayoutMoveRefused, ReversalOpen, ReversalTooLarge
from portal.payouts.models import Payout, PayoutReversal, PayoutState, Rail, ReversalState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import bank

log = logging.getLogger(__name__)


def request(
    *, payout_public_id: str, amount_minor: int, reason: str, requested_by: User, actor: Actor, now: datetime
) -> PayoutReversal:
    """Note the wish and enqueue the call. Raises NotAnOperator, PayoutMoveRefused, ReversalTooLarge, ReversalOpen."""
    if not requested_by.is_operator:
        raise NotAnOperator("only operators take payouts back")
    if not reason.strip():
        raise InvalidValue("give the reason; the provider will read it", param="reason")
    found = selectors.payout(payout_public_id)
    try:
        with transaction.atomic():
            payout = locks.payout(found.pk)
            _require_reversible(payout, amount_minor)
            row = PayoutReversal.objects.create(
                payout=payout,
                amount_minor=amount_minor,
                reason=reason.strip()[:240],
                requested_by=requested_by,
                requested_at=now,
            )
            _record(row, "payout.reversal_requested", actor, now)
            queue.after_commit("payouts.send_reversal", reversal_id=row.pk)
    except IntegrityError as error:
        if "payout_one_open_reversal" not in str(error):
            raise
        raise ReversalOpen("another reversal of this payout is under way") from error
    return row


def _require_reversible(payout: Payout, amount_minor: int) -> None:
    if payout.state != PayoutState.TRANSFERRED or payout.rail != Rail.STRIPE:
        raise PayoutMoveRefused(f"a payout that is {payout.state} cannot be taken back at Stripe")
    left = payout.amount_minor - payout.reversed_minor
    if not 0 < amount_minor <= left:
        raise ReversalTooLarge(f"{left} minor units can be taken back, not {amount_minor}", param="amount")


def send(*, reversal_id: int, now: datetime) -> PayoutReversal:
    """Make the call, or make it again, and write what came of it; a finished one is left as it is."""
    row = PayoutReversal.objects.select_related("payout").get(pk=reversal_id)
    if row.state != ReversalState.REQUESTED or freeze.is_frozen():
        return row
    if now - row.requested_at >= stripe.SAME_KEY_FOR:  # only a person may look now what became of it
        log.error("payout.reversal_in_doubt", extra={"reversal": row.public_id})
        return row
    transfer = row.payout.stripe_transfer or ""
    try:
        stripe.payments().reverse_transfer(
            key=f"reversal:{row.public_id}", transfer=transfer, amount_minor=row.amount_minor
        )
    except PaymentRejected as error:
        return _finish(row, ReversalState.REFUSED, now, code=error.stripe_code, message=error.message)
    except PaymentError as error:
        log.warning("payout.reversal_unknown", extra={"reversal": row.public_id, "code": error.code})
        return row
    bank.note_transfer(transfer=transfer, now=now)
    return _finish(row, ReversalState.DONE, now)


def open_reversals(*, limit: int = 100) -> list[int]:
    """Return reversals whose call is not answered, oldest first."""
    rows = PayoutReversal.objects.filter(state=ReversalState.REQUESTED).order_by("requested_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])


def _finish(
    row: PayoutReversal, state: ReversalState, now: datetime, *, code: str = "", message: str = ""
) -> PayoutReversal:
    with transaction.atomic():
        locks.payout(row.payout_id)
        locked = locks.reversal(row.pk)
        if locked.state != ReversalState.REQUESTED:
            return locked
        locked.state, locked.finished_at = state, now
        locked.error_code, locked.error_message = code[:64], message[:400]
        locked.save(update_fields=["state", "finished_at", "error_code", "error_message"])
        _record(locked, f"payout.reversal_{state}", SYSTEM_ACTOR, now)
    return locked


def _record(row: PayoutReversal, event: str, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.payout.public_id,
        now=now,
        organization=row.payout.provider.organization.public_id,
        detail={
            "reversal": row.public_id,
            "amount_minor": row.amount_minor,
            "reason": row.reason,
            "error": row.error_code,
        },
    )
