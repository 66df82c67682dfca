"""Customer pages: credit, bought on Stripe's hosted page. Routes `customer:credit` and `customer:topup`."""

import logging
import secrets

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import path

from portal.billing.models import TopUp, TopUpState
from portal.billing.rules import topups as rules
from portal.billing.selectors import balances, transactions
from portal.billing.selectors import topups as selectors
from portal.billing.services import topups
from portal.core import clock, money
from portal.core.errors import DomainError
from portal.integrations.stripe_errors import PaymentError, PaymentOutcomeUnknown
from portal.web import formats
from portal.web.access import OrganizationRequest, page
from portal.web.hosted import may_lead_to_stripe

log = logging.getLogger(__name__)

_KEY_LENGTH = 16
MEANINGS = {
    TopUpState.CREATED: "The payment page was not opened yet.",
    TopUpState.OPEN: "Stripe has not reported a payment yet. If you have paid, check again in a moment.",
    TopUpState.PROCESSING: "Your bank is working on it: the credit comes when the money does, which can take days.",
    TopUpState.PAID: "The credit is on your account.",
    TopUpState.EXPIRED: "The payment page was not used in time. Nothing was charged.",
    TopUpState.FAILED: "The payment did not go through.",
}


class TopUpForm(forms.Form):
    """How much; the hidden key makes a second click the same purchase."""

    amount = forms.CharField(label="Amount", max_length=12)
    client_key = forms.CharField(widget=forms.HiddenInput, max_length=80)

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # handed on as they came
        least, most = (_shown(bound(settings.CURRENCY)) for bound in (rules.least_minor, rules.most_minor))
        field = self.fields["amount"]
        field.help_text = f"{least} to {most}. You pay on a page of Stripe; card details never reach this pool."
        field.widget.attrs |= {"inputmode": "decimal", "autocomplete": "off"}

    def clean_amount(self) -> int:
        """Read the amount as minor units."""
        text = self.cleaned_data["amount"].strip().replace(",", ".")
        try:
            minor, rest = money.minor_from_nano(money.nano_from_text(text), settings.CURRENCY)
        except ValueError as error:
            raise forms.ValidationError("Write an amount such as 25 or 12.50.") from error
        if rest:
            raise forms.ValidationError(f"{settings.CURRENCY.upper()} has no smaller unit than that.")
        return minor


def _shown(minor: int) -> str:
    return formats.money(money.nano_from_minor(minor, settings.CURRENCY), currency=settings.CURRENCY)


@may_lead_to_stripe
@page(side="customer")
def credit(request: OrganizationRequest) -> HttpResponse:
    """Show the credit and what moved it; a POST opens Stripe's payment page."""
    form = TopUpForm(request.POST or None, initial={"client_key": secrets.token_urlsafe(_KEY_LENGTH)})
    if request.method == "POST" and form.is_valid():
        answer = _buy(request, form)
        if answer is not None:
            return answer
    organization = request.organization
    context = {
        "form": form,
        "currency": settings.CURRENCY.upper(),
        "balance": balances.customer_balance(organization=organization.public_id),
        "topups": selectors.topups_of(organization=organization),
        "movements": transactions.customer_movements(organization=organization.public_id),
    }
    return render(request, "customer/credit.html", context)


def _buy(request: OrganizationRequest, form: TopUpForm) -> HttpResponse | None:
    """Open Checkout and lead there; None where the form has to say what is wrong."""
    try:
        topup = topups.start_topup(
            organization=request.organization,
            amount_minor=form.cleaned_data["amount"],
            client_key=form.cleaned_data["client_key"],
            created_by=request.user,
            actor=request.actor,
            now=clock.now(),
        )
    except PaymentOutcomeUnknown:
        form.add_error(None, "Stripe did not answer. Nothing was charged; press the button once more.")
        return None
    except DomainError as error:
        form.add_error("amount" if error.param == "amount" else None, error.sentences)
        return None
    if topup.checkout_url:
        return HttpResponseRedirect(topup.checkout_url)
    return redirect("customer:topup", topup.public_id)


@page(side="customer")
def topup(request: OrganizationRequest, topup: str) -> HttpResponse:
    """Show one purchase: where Stripe leads the buyer back to. Coming here proves nothing, so Stripe is asked."""
    found = selectors.topup_of(organization=request.organization, public_id=topup)
    found = _ask_stripe(request, found)
    context = {"topup": found, "meaning": MEANINGS[TopUpState(found.state)], "is_open": found.state in _OPEN}
    return render(request, "customer/topup.html", context)


_OPEN = frozenset({TopUpState.OPEN, TopUpState.PROCESSING})


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
