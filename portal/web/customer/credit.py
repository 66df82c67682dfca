"""Customer pages: credit, bought on Stripe's hosted page. Routes `customer:credit` and `customer:topup`."""

import logging
from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import path

from portal.billing.models import TopUp, TopUpState
from portal.billing.selectors import topups as selectors
from portal.billing.services import topups
from portal.core import clock
from portal.core.errors import DomainError
from portal.integrations.stripe_errors import PaymentError, PaymentOutcomeUnknown
from portal.web.access import OrganizationRequest, page
from portal.web.customer.credit_context import context
from portal.web.customer.credit_forms import TopUpForm, new_key
from portal.web.hosted import may_lead_to_stripe

log = logging.getLogger(__name__)

MEANINGS = {
    TopUpState.CREATED: "The payment page was not opened yet.",
    TopUpState.OPEN: "Stripe has not reported a payment yet. If you have paid, check again in a moment.",
    TopUpState.PROCESSING: "Your bank is working on it: the credit comes when the money does, which can take days.",
    TopUpState.UNKNOWN: "Stripe's answer was lost. It is being looked up; nothing is charged twice.",
    TopUpState.NEEDS_ACTION: "The card's bank wants its owner to confirm this payment on a page of Stripe.",
    TopUpState.PAID: "The credit is on your account.",
    TopUpState.EXPIRED: "The payment page was not used in time. Nothing was charged.",
    TopUpState.FAILED: "The payment did not go through.",
}


@may_lead_to_stripe
@page(side="customer")
def credit(request: OrganizationRequest) -> HttpResponse:
    """Show the credit and what moved it; a POST opens Stripe's payment page."""
    now = clock.now()
    form = TopUpForm(request.POST or None, initial={"client_key": new_key()})
    if request.method == "POST" and form.is_valid():
        wanted = topups.Wanted(
            amount_minor=form.cleaned_data["amount"],
            client_key=form.cleaned_data["client_key"],
            created_by=request.user,
            saves_card=form.cleaned_data["keep_card"],
        )
        answer = buy(request, form, wanted, now=now)
        if answer is not None:
            return answer
    return render(request, "customer/credit.html", context(request, now=now, form=form))


def buy(request: OrganizationRequest, form: forms.Form, wanted: topups.Wanted, *, now: datetime) -> HttpResponse | None:
    """Open Checkout and lead there; None where the form has to say what is wrong."""
    try:
        topup = topups.start_topup(organization=request.organization, wanted=wanted, actor=request.actor, now=now)
    except PaymentOutcomeUnknown:
        form.add_error(None, "Stripe did not answer. Nothing was charged; press the button once more.")
        return None
    except DomainError as error:
        form.add_error("amount" if error.param == "amount" and "amount" in form.fields else None, error.sentences)
        return None
    if topup.checkout_url:
        return HttpResponseRedirect(topup.checkout_url)
    return redirect("customer:topup", topup.public_id)


@page(side="customer")
def topup(request: OrganizationRequest, topup: str) -> HttpResponse:
    """Show one purchase: where Stripe leads the buyer back to. Coming here proves nothing, so Stripe is asked."""
    found = selectors.topup_of(organization=request.organization, public_id=topup)
    found = _ask_stripe(request, found)
    shown = {"topup": found, "meaning": MEANINGS[TopUpState(found.state)], "is_open": found.state in _OPEN}
    return render(request, "customer/topup.html", shown)


_OPEN = frozenset({TopUpState.OPEN, TopUpState.PROCESSING, TopUpState.UNKNOWN, TopUpState.NEEDS_ACTION})


def _ask_stripe(request: OrganizationRequest, found: TopUp) -> TopUp:
    if found.state not in _OPEN:
        return found
    try:
        return topups.fulfil(topup_id=found.pk, now=clock.now())
    except PaymentError as error:
        log.warning("topup.not_read", extra={"topup": found.public_id, "code": error.code})
        messages.warning(request, "Stripe does not answer right now; the credit comes as soon as it does.")
    except topups.TopUpMismatch as error:
        messages.error(request, error.sentences)
        found.refresh_from_db()
    return found


urlpatterns = [
    path("credit/", credit, name="credit"),
    path("credit/<str:topup>/", topup, name="topup"),
]
