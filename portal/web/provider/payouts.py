"""Provider pages: payouts and the account at Stripe. The main page's route is named `provider:payouts`."""

from datetime import datetime

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.billing.selectors import balances, held_earnings
from portal.core import clock
from portal.integrations.stripe_errors import PaymentError
from portal.payouts.errors import AccountGone
from portal.payouts.models import CURRENT_STATES
from portal.payouts.rules import accounts as account_rules
from portal.payouts.rules import requirements, states
from portal.payouts.selectors import accounts as account_selectors
from portal.payouts.selectors import destinations
from portal.payouts.selectors import outlook as outlooks
from portal.payouts.selectors import payouts as selectors
from portal.payouts.services import accounts
from portal.providers.models import ProviderKind
from portal.web.access import ProviderRequest, provider_page
from portal.web.bank_words import bank_words
from portal.web.hosted import may_lead_to_stripe
from portal.web.provider import destination
from portal.web.second_factor import confirmed_at, lead_to_it

_FORM_HELPS = frozenset({"not_started", "onboarding", "action_required", "restricted", "active"})


@may_lead_to_stripe
@provider_page()
def payouts(request: ProviderRequest) -> HttpResponse:
    """Show what is owed, what keeps it from being paid, and every payout so far."""
    provider, now = request.provider, clock.now()
    row = account_selectors.account_of(provider=provider)
    state = row.state if row else "not_started"
    history = selectors.payouts_of(provider=provider)
    bank = destinations.last_bank_account(provider=provider)
    context = {
        "provider": provider,
        "balance": balances.provider_balance(provider=provider.public_id),
        "outlook": outlooks.outlook(provider=provider, now=now),
        "account": row,
        "state": state,
        "cause": account_rules.cause(state, row.state_code if row else ""),
        "fix": account_rules.fix(state, row.state_code if row else ""),
        "asks": requirements.asks(row.requirements) if row else [],
        "days_left": requirements.days_left(row.due_at, now=now) if row else None,
        "held": held_earnings.held_of(provider=provider.public_id),
        "earns_before": settings.EARN_BEFORE_KYC,
        "held_until": destinations.held_until(provider=provider, now=now),
        "changes": destinations.changes_of(provider=provider, limit=20),
        "has_bank_transfers": settings.MANUAL_PAYOUTS,
        "bank": bank,
        "is_bank_current": bank is not None and bank.state in CURRENT_STATES,
        "is_house": provider.kind == ProviderKind.HOUSE,
        "has_form": state in _FORM_HELPS,
        "is_unlinkable": state in account_rules.UNLINKABLE,
        "payouts": [(one, states.meaning(one.state, one.rail), bank_words(one)) for one in history],
        "minimum_minor": settings.PAYOUT_MINIMUM_MINOR,
    }
    return render(request, "provider/payouts.html", context)


@may_lead_to_stripe
@require_POST
@provider_page(role=Role.ADMIN)
def onboard(request: ProviderRequest) -> HttpResponse:
    """Lead to Stripe's form."""
    return _to_form(request)


@provider_page(role=Role.ADMIN)
def renew(request: ProviderRequest) -> HttpResponse:
    """Make a new link where Stripe says the old one is used or late: its links are good once, for minutes."""
    return _to_form(request)


def _to_form(request: ProviderRequest) -> HttpResponse:
    back = reverse("provider:payouts")
    row = account_selectors.account_of(provider=request.provider)
    refusal = lead_to_it(request, back=back) if accounts.needs_confirmation(row=row) else None
    if refusal is not None:
        return HttpResponseRedirect(refusal["location"])
    try:
        url = accounts.start_onboarding(
            provider=request.provider,
            confirmed_at=confirmed_at(request),
            return_url=settings.PUBLIC_URL + reverse("provider:payouts-return"),
            refresh_url=settings.PUBLIC_URL + reverse("provider:payouts-renew"),
            actor=request.actor,
            now=clock.now(),
        )
    except PaymentError as error:
        code = error.stripe_code or error.code
        messages.error(request, f"Stripe could not open the form ({code}): {error.sentences}")
        return redirect("provider:payouts")
    return HttpResponseRedirect(url)


@provider_page()
def returned(request: ProviderRequest) -> HttpResponse:
    """Come back from Stripe's form. That proves nothing: the account is read again."""
    _refresh(request, clock.now())
    return redirect("provider:payouts")


@require_POST
@provider_page()
def refresh(request: ProviderRequest) -> HttpResponse:
    """Read the account at Stripe again."""
    _refresh(request, clock.now())
    return redirect("provider:payouts")


def _refresh(request: ProviderRequest, now: datetime) -> None:
    try:
        accounts.refresh(provider_id=request.provider.public_id, now=now)
    except (PaymentError, AccountGone) as error:
        messages.warning(request, f"The account could not be read: {error.message}")


urlpatterns = [
    path("payouts/", payouts, name="payouts"),
    path("payouts/onboard/", onboard, name="payouts-onboard"),
    path("payouts/renew/", renew, name="payouts-renew"),
    path("payouts/return/", returned, name="payouts-return"),
    path("payouts/refresh/", refresh, name="payouts-refresh"),
    *destination.urlpatterns,
]
