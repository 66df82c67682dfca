"""Operator pages: the payout run. The main page's route is named `operators:payouts`."""

from collections.abc import Callable

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.core import clock
from portal.core.errors import InvalidValue
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentError
from portal.integrations.stripe_types import Balance, Transfer
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.models import Payout, PayoutState, Rail
from portal.payouts.rules import states
from portal.payouts.selectors import outlook as outlooks
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import approvals, reconcile, reversals, reviews, run_approvals, runs

_BEFORE_SENDING = {PayoutState.RESERVED, PayoutState.HELD, PayoutState.APPROVED, PayoutState.WAITING_FUNDS}


@operator_page
def payouts(request: OperatorRequest) -> HttpResponse:
    """Show who is owed what, the open payouts with those that need a person first, and the last ones."""
    found, balance = outlooks.outlooks(now=clock.now()), _platform_balance(request)
    context = {
        "outlooks": found,
        "ready_minor": sum(one.amount_minor for one in found if one.reason is None),
        "ready": sum(one.reason is None for one in found),
        "totals": [(state, count, minor) for state, (count, minor) in selectors.totals().items()],
        "open": [(one, states.meaning(one.state, one.rail)) for one in selectors.open_payouts()],
        "recent": selectors.recent(),
        "available_minor": balance.available_minor if balance else None,
        "pending_minor": balance.pending_minor if balance else None,
        "approvers": settings.PAYOUT_APPROVERS,
    }
    return render(request, "operators/payouts.html", context)


def _platform_balance(request: OperatorRequest) -> Balance | None:
    try:
        found = stripe.payments().balances()
    except PaymentError as error:
        messages.warning(request, f"Stripe could not be asked for the balance: {error.message}")
        return None
    return next((one for one in found if one.currency == settings.CURRENCY), None)


@require_POST
@operator_page
def send(request: OperatorRequest) -> HttpResponse:
    """Find out about payouts in doubt, then send what is approved."""
    done = runs.run(now=clock.now())
    messages.success(
        request, f"{len(done.reconciled)} looked up, {len(done.sent)} sent, {len(done.waiting)} wait for funds."
    )
    return redirect("operators:payouts")


@operator_page
def payout(request: OperatorRequest, payout: str) -> HttpResponse:
    """Show one payout: attempts, approvals, and what Stripe has where it is in doubt."""
    found = selectors.payout(payout)
    in_doubt = found.state in {PayoutState.UNKNOWN, PayoutState.NEEDS_REVIEW}
    context = {
        "payout": found,
        "meaning": states.meaning(found.state, found.rail),
        "attempts": found.attempts.order_by("-number"),
        "approvals": found.approvals.select_related("approved_by").order_by("approved_at", "pk"),
        "approvers": settings.PAYOUT_APPROVERS,
        "may_approve": found.state == PayoutState.RESERVED,
        "may_hold": found.state in _BEFORE_SENDING - {PayoutState.HELD},
        "may_resume": found.state == PayoutState.HELD,
        "may_cancel": found.state in _BEFORE_SENDING,
        "may_decide": found.state == PayoutState.NEEDS_REVIEW,
        "in_doubt": in_doubt,
        "listing": _listing(request, found) if in_doubt else [],
        "legs": found.bank_legs.order_by("-made_at", "-pk"),
        "reversals": found.reversals.select_related("requested_by").order_by("-requested_at", "-pk"),
        "may_reverse": found.state == PayoutState.TRANSFERRED and found.rail == Rail.STRIPE,
        "left_minor": found.amount_minor - found.reversed_minor,
    }
    return render(request, "operators/payout.html", context)


def _listing(request: OperatorRequest, payout: Payout) -> list[Transfer]:
    try:
        return reviews.listing(payout_public_id=payout.public_id)
    except PaymentError as error:
        messages.warning(request, f"Stripe could not be asked: {error.message}")
        return []


@require_POST
@operator_page
def act(request: OperatorRequest, payout: str) -> HttpResponse:
    """Do what the operator chose with one payout."""
    action = request.POST.get("action", "")
    acts: dict[str, Callable[[OperatorRequest, str], Payout]] = {
        "approve": _approve,
        "hold": _hold,
        "resume": _resume,
        "cancel": _cancel,
        "reconcile": _reconcile,
        "retry": _retry,
        "release": _release,
    }
    if action not in acts:
        raise InvalidValue(f"use one of {', '.join(acts)}", param="action")
    done = acts[action](request, payout)
    messages.success(request, f"{done.public_id}: {states.meaning(done.state, done.rail)}")
    return redirect("operators:payout", payout)


@require_POST
@operator_page
def reverse(request: OperatorRequest, payout: str) -> HttpResponse:
    """Take a payout back at Stripe, in part or in full."""
    text = request.POST.get("amount_minor", "")
    if not (text.isascii() and text.isdigit()):
        raise InvalidValue("give the amount in minor units, a whole number", param="amount")
    row = reversals.request(
        payout_public_id=payout,
        amount_minor=int(text),
        reason=_reason(request),
        requested_by=request.user,
        actor=request.actor,
        now=clock.now(),
    )
    messages.success(request, f"{row.public_id} is on its way to Stripe; what comes of it is shown below.")
    return redirect("operators:payout", payout)


def _approve(request: OperatorRequest, payout: str) -> Payout:
    return run_approvals.approve_one(
        payout_public_id=payout, approver=request.user, actor=request.actor, now=clock.now()
    )


def _hold(request: OperatorRequest, payout: str) -> Payout:
    return approvals.hold(payout_public_id=payout, reason=_reason(request), actor=request.actor, now=clock.now())


def _resume(request: OperatorRequest, payout: str) -> Payout:
    return approvals.resume(payout_public_id=payout, actor=request.actor, now=clock.now())


def _cancel(request: OperatorRequest, payout: str) -> Payout:
    return approvals.cancel(payout_public_id=payout, reason=_reason(request), actor=request.actor, now=clock.now())


def _reconcile(request: OperatorRequest, payout: str) -> Payout:
    return reconcile.reconcile(payout_id=selectors.payout(payout).pk, now=clock.now())


def _retry(request: OperatorRequest, payout: str) -> Payout:
    return reviews.retry(payout_public_id=payout, actor=request.actor, now=clock.now())


def _release(request: OperatorRequest, payout: str) -> Payout:
    return reviews.release(payout_public_id=payout, reason=_reason(request), actor=request.actor, now=clock.now())


def _reason(request: OperatorRequest) -> str:
    text = request.POST.get("reason", "").strip()
    if not text:
        raise InvalidValue("give the reason; the provider will read it", param="reason")
    return text


urlpatterns = [
    path("payouts/", payouts, name="payouts"),
    path("payouts/send/", send, name="payouts-send"),
    path("payouts/<str:payout>/", payout, name="payout"),
    path("payouts/<str:payout>/reverse/", reverse, name="payout-reverse"),
    path("payouts/<str:payout>/act/", act, name="payout-act"),
]
