"""One pass over everything that waits: find out, then send what is approved and what waits for funds."""

import logging
from dataclasses import dataclass, field
from datetime import datetime

from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError
from portal.payouts.errors import PayoutNotSendable
from portal.payouts.models import Payout, PayoutState
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import reconcile, sending

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Run:
    """What a pass did: payouts by public id, with the state each is in now."""

    reconciled: dict[str, str] = field(default_factory=dict)
    sent: dict[str, str] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)


def run(*, now: datetime) -> Run:
    """Find out about unknown payouts, then send every approved one, and those for which there are funds now."""
    done = Run(reconciled=reconcile.reconcile_unknown(now=now).states)
    for payout_id in selectors.to_send():
        payout = Payout.objects.get(pk=payout_id)
        if payout.state == PayoutState.WAITING_FUNDS and not has_funds(payout):
            done.waiting.append(payout.public_id)
            continue
        try:
            payout = sending.send(payout_id=payout_id, now=now)
        except PayoutNotSendable as error:
            log.info("payout.not_sendable", extra={"payout": payout.public_id, "reason": error.message})
            continue
        done.sent[payout.public_id] = payout.state
    return done


def has_funds(payout: Payout) -> bool:
    """Tell whether the platform's available balance covers the payout; an unreachable Stripe has none."""
    try:
        found = stripe.payments().balances()
    except PaymentError as error:
        log.warning("payout.balance_unknown", extra={"code": error.code})
        return False
    return any(one.currency == payout.currency and one.available_minor >= payout.amount_minor for one in found)
