"""Sends one payout: claim, commit, look at the account again, call Stripe outside any transaction, write what came."""

from datetime import datetime

from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import freeze
from portal.integrations import stripe
from portal.integrations.stripe_errors import (
    InsufficientFunds,
    PaymentError,
    PaymentOutcomeUnknown,
    PaymentRateLimited,
    PaymentRejected,
)
from portal.integrations.stripe_types import TransferOrder
from portal.payouts import locks
from portal.payouts.errors import PayoutNotSendable
from portal.payouts.models import Payout, PayoutAccount, PayoutAttempt, PayoutState, Rail
from portal.payouts.rules import accounts as account_rules
from portal.payouts.selectors import destinations as selectors_of_destinations
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import accounts, approvals, destinations, moves, outcomes, routes
from portal.providers.models import ProviderKind

_SENDABLE = [PayoutState.APPROVED, PayoutState.WAITING_FUNDS]


def send(*, payout_id: int, now: datetime) -> Payout:
    """Send an approved payout and return it as it is afterwards. Raises PayoutNotSendable, NotFound."""
    attempt = _claim(payout_id, now)
    refusal = _refusal(attempt, now)
    if refusal is not None:
        return refusal
    return call(attempt, now=now)


def _claim(payout_id: int, now: datetime) -> PayoutAttempt:
    """Take the payout for this worker by a conditional UPDATE, and commit."""
    with transaction.atomic():
        if freeze.is_frozen():
            raise PayoutNotSendable("payments rest while a backup is being recovered", fix=freeze.FIX)
        taken = Payout.objects.filter(pk=payout_id, state__in=_SENDABLE).update(changed_at=now)
        payout = locks.payout(payout_id)
        if not taken or payout.state not in _SENDABLE or payout.rail != Rail.STRIPE:
            raise PayoutNotSendable(f"{payout.public_id} is {payout.state}, by {payout.rail}")
        if destinations.hold_if_changed(payout=payout, now=now):
            problem, fix = "rests, because its destination was changed", "wait until the pause is over"
        elif approvals.has_enough(payout):
            return claimed(payout, now)
        else:
            problem, fix = "changed after it was approved", "approve it again"
            moves.move(payout, PayoutState.RESERVED, reason=f"it {problem}", actor=SYSTEM_ACTOR, now=now)
    raise PayoutNotSendable(f"{payout.public_id} {problem}", fix=fix)


def claimed(payout: Payout, now: datetime) -> PayoutAttempt:
    """Move the locked payout to sending and return the attempt in force."""
    attempt = selectors.attempt_of(payout)
    attempt.claimed_at = now
    attempt.save(update_fields=["claimed_at"])
    moves.move(payout, PayoutState.SENDING, actor=SYSTEM_ACTOR, now=now)
    return attempt


def _refusal(attempt: PayoutAttempt, now: datetime) -> Payout | None:
    """Look at the provider and its account once more; return the payout where it must not be sent."""
    payout = Payout.objects.select_related("provider").get(pk=attempt.payout_id)
    if payout.provider.kind == ProviderKind.HOUSE:
        return outcomes.rejected(attempt, code="house", message="house nodes are not paid", now=now)
    try:
        row = accounts.refresh(provider_id=payout.provider.public_id, now=now)
        problem = _problem(row, attempt)
    except PaymentError as error:
        return outcomes.postponed(attempt, reason=f"Stripe could not be asked: {error.message}", now=now)
    if problem is not None:
        return outcomes.rejected(attempt, code=problem[0], message=problem[1], now=now)
    if selectors_of_destinations.held_until(provider=payout.provider, now=now) is not None:
        return outcomes.postponed(attempt, reason="its destination was changed", now=now)
    return None


def _problem(row: PayoutAccount, attempt: PayoutAttempt) -> tuple[str, str] | None:
    """Return code and words of what is wrong with the account now, or None."""
    if row.stripe_account != attempt.params["destination"]:
        return "destination_changed", "the provider has another account now"
    if not account_rules.is_payable(row.state):
        return f"account_{row.state}", row.state_code
    if routes.is_negative(attempt.params["destination"]):
        return "negative_at_stripe", "Stripe would keep the transfer"
    return None


def call(attempt: PayoutAttempt, *, now: datetime) -> Payout:
    """Make the transfer with the attempt's frozen parameters and key, and write what came of it."""
    PayoutAttempt.objects.filter(pk=attempt.pk, first_sent_at=None).update(first_sent_at=now)
    try:
        transfer = stripe.payments().create_transfer(key=attempt.idempotency_key, order=TransferOrder(**attempt.params))
    except InsufficientFunds as error:
        return outcomes.out_of_funds(attempt, error, now=now)
    except PaymentRateLimited as error:
        return outcomes.postponed(attempt, reason=f"Stripe asks to come later: {error.message}", now=now)
    except PaymentOutcomeUnknown as error:
        return outcomes.unknown(attempt, reason=error.message, now=now)
    except PaymentRejected as error:
        return outcomes.rejected(attempt, code=error.stripe_code, message=error.message, now=now)
    return outcomes.transferred(attempt, transfer, now=now)
