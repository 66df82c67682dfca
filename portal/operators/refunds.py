"""Operator pages: refunds. The list's route is named `operators:refunds`."""

from collections.abc import Callable

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.billing.models import Refund, RefundState
from portal.billing.rules import refunds as rules
from portal.billing.selectors import refunds as selectors
from portal.billing.services import refund_reading, refund_sending, refunds
from portal.core import clock
from portal.core.errors import InvalidValue
from portal.integrations.stripe_errors import PaymentError
from portal.operators.access import OperatorRequest, operator_page

_UNSENT = {RefundState.REQUESTED, RefundState.RESERVED}


@operator_page
def refund_list(request: OperatorRequest) -> HttpResponse:
    """Show refunds that wait for an operator, and the last ones."""
    context = {"waiting": selectors.waiting(), "recent": selectors.refunds()}
    return render(request, "operators/refunds.html", context)


@operator_page
def refund(request: OperatorRequest, refund: str) -> HttpResponse:
    """Show one refund with its attempts."""
    found = selectors.refund(public_id=refund)
    context = {
        "refund": found,
        "meaning": rules.MEANINGS[found.state],
        "card": selectors.charge_of(topup=found.topup),
        "attempts": found.attempts.order_by("-number"),
        "may_approve": found.state == RefundState.REQUESTED,
        "may_cancel": found.state in _UNSENT,
        "may_read": found.state in {RefundState.UNKNOWN, RefundState.PENDING, RefundState.SENDING},
        "may_decide": found.state == RefundState.NEEDS_REVIEW,
    }
    return render(request, "operators/refund.html", context)


@require_POST
@operator_page
def act(request: OperatorRequest, refund: str) -> HttpResponse:
    """Do what the operator chose with one refund."""
    acts: dict[str, Callable[[OperatorRequest, str], Refund]] = {
        "approve": _approve,
        "cancel": _cancel,
        "read": _read,
        "retry": _retry,
        "give_up": _give_up,
    }
    action = request.POST.get("action", "")
    if action not in acts:
        raise InvalidValue(f"use one of {', '.join(acts)}", param="action")
    try:
        done = acts[action](request, refund)
    except PaymentError as error:
        messages.warning(request, f"Stripe could not be asked: {error.message}")
    else:
        messages.success(request, f"{done.public_id}: {rules.MEANINGS[done.state]}")
    return redirect("operators:refund", refund)


def _approve(request: OperatorRequest, refund: str) -> Refund:
    return refunds.approve(refund_public_id=refund, actor=request.actor, now=clock.now())


def _cancel(request: OperatorRequest, refund: str) -> Refund:
    return refunds.cancel(refund_public_id=refund, reason=_reason(request), actor=request.actor, now=clock.now())


def _read(request: OperatorRequest, refund: str) -> Refund:
    found, now = selectors.refund(public_id=refund), clock.now()
    refund_sending.reconcile(refund_id=found.pk, now=now)
    refund_reading.read(charge=found.charge, now=now)
    return selectors.refund(public_id=refund)


def _retry(request: OperatorRequest, refund: str) -> Refund:
    return refund_sending.retry(refund_public_id=refund, actor=request.actor, now=clock.now())


def _give_up(request: OperatorRequest, refund: str) -> Refund:
    return refund_sending.give_up(
        refund_public_id=refund, reason=_reason(request), actor=request.actor, now=clock.now()
    )


def _reason(request: OperatorRequest) -> str:
    text = request.POST.get("reason", "").strip()
    if not text:
        raise InvalidValue("give the reason; the customer will read it", param="reason")
    return text


urlpatterns = [
    path("refunds/", refund_list, name="refunds"),
    path("refunds/<str:refund>/", refund, name="refund"),
    path("refunds/<str:refund>/act/", act, name="refund-act"),
]
