"""Provider pages that change where the money goes: each needs a fresh second factor. Listed on `provider:payouts`."""

from django import forms
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.core import clock
from portal.core.errors import DomainError
from portal.integrations.stripe_errors import PaymentError
from portal.payouts.models import BankScheme
from portal.payouts.selectors import accounts as account_selectors
from portal.payouts.selectors import destinations as selectors
from portal.payouts.services import accounts, bank_accounts
from portal.web.access import ProviderRequest, provider_page
from portal.web.hosted import may_lead_to_stripe
from portal.web.second_factor import confirmed_at, lead_to_it, needs_second_factor


class BankForm(forms.Form):
    """An account at a bank."""

    scheme = forms.ChoiceField(choices=BankScheme.choices, label="How the account is named")
    holder = forms.CharField(max_length=140, label="Holder", help_text="Exactly as the bank has it.")
    account = forms.CharField(
        max_length=64,
        label="IBAN or account number",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    bank = forms.CharField(
        max_length=16,
        required=False,
        label="BIC or routing number",
        help_text="Not needed with an IBAN.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )


@provider_page(role=Role.ADMIN)
@needs_second_factor
def unlink(request: ProviderRequest) -> HttpResponse:
    """Forget the account at Stripe, after asking."""
    if request.method == "POST":
        accounts.unlink(
            provider=request.provider, confirmed_at=confirmed_at(request), actor=request.actor, now=clock.now()
        )
        messages.success(request, "The account is unlinked. Start the onboarding again.")
        return redirect("provider:payouts")
    row = account_selectors.account_of(provider=request.provider)
    return render(request, "provider/payouts_unlink.html", {"account": row})


@provider_page(role=Role.ADMIN)
@needs_second_factor
def bank(request: ProviderRequest) -> HttpResponse:
    """Take bank details for payouts by bank transfer."""
    form = BankForm(request.POST or None, initial={"holder": request.provider.legal_name})
    if request.method == "POST" and form.is_valid():
        try:
            bank_accounts.give(
                provider=request.provider,
                given=bank_accounts.Given(**form.cleaned_data),
                confirmed_at=confirmed_at(request),
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(
                request, "The bank details are with the operator, who checks them before anything is paid."
            )
            return redirect("provider:payouts")
    current = selectors.bank_account_of(provider=request.provider)
    return render(request, "provider/payouts_bank.html", {"form": form, "current": current})


@provider_page(role=Role.ADMIN)
@needs_second_factor
def withdraw_bank(request: ProviderRequest) -> HttpResponse:
    """Take the bank details back, after asking."""
    if request.method == "POST":
        bank_accounts.withdraw(
            provider=request.provider, confirmed_at=confirmed_at(request), actor=request.actor, now=clock.now()
        )
        messages.success(request, "The bank details are withdrawn.")
        return redirect("provider:payouts")
    current = selectors.bank_account_of(provider=request.provider)
    return render(request, "provider/payouts_bank_withdraw.html", {"current": current})


@may_lead_to_stripe
@require_POST
@provider_page(role=Role.ADMIN)
def dashboard(request: ProviderRequest) -> HttpResponse:
    """Lead into the provider's own dashboard at Stripe, where the bank account can be changed."""
    refusal = lead_to_it(request, back=reverse("provider:payouts"))
    if refusal is not None:
        return HttpResponseRedirect(refusal["location"])
    try:
        url = accounts.dashboard_link(provider=request.provider, confirmed_at=confirmed_at(request), now=clock.now())
    except PaymentError as error:
        messages.error(
            request, f"Stripe could not open the dashboard ({error.stripe_code or error.code}): {error.message}"
        )
        return redirect("provider:payouts")
    return HttpResponseRedirect(url)


urlpatterns = [
    path("payouts/unlink/", unlink, name="payouts-unlink"),
    path("payouts/bank/", bank, name="payouts-bank"),
    path("payouts/bank/withdraw/", withdraw_bank, name="payouts-bank-withdraw"),
    path("payouts/dashboard/", dashboard, name="payouts-dashboard"),
]
