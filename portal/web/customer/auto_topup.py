"""Customer pages: automatic purchases, saved cards and the alert of low credit; all shown on the Credit page."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.billing.amount_fields import take
from portal.billing.selectors import auto_topups, cards
from portal.billing.services import auto_settings, credit_alerts
from portal.billing.services import cards as card_services
from portal.billing.services.auto_settings import AutoTerms
from portal.core import clock, money
from portal.core.errors import NotFound
from portal.web.access import OrganizationRequest, page
from portal.web.customer.credit_context import context
from portal.web.customer.credit_forms import AlertForm, AutoTopUpForm
from portal.web.hosted import may_lead_to_stripe


@may_lead_to_stripe
@page(side="customer", post_role=Role.ADMIN)
@require_POST
def turn_on(request: OrganizationRequest) -> HttpResponse:
    """Let the pool charge a saved card whenever free credit is low."""
    organization, now = request.organization, clock.now()
    form = AutoTopUpForm(
        request.POST,
        cards=cards.cards_of(organization=organization),
        plan=auto_topups.plan_of(organization=organization),
    )
    if form.is_valid():
        terms = AutoTerms(
            threshold_minor=form.cleaned_data["threshold"],
            amount_minor=form.cleaned_data["amount"],
            monthly_cap_minor=form.cleaned_data["monthly_cap"],
            card=form.cleaned_data["card"],
        )
        if take(
            form,
            lambda: auto_settings.turn_on(
                organization=organization, terms=terms, user=request.user, actor=request.actor, now=now
            ),
        ):
            messages.success(request, "Automatic top-ups are on.")
            return redirect("customer:credit")
    return render(request, "customer/credit.html", context(request, now=now, auto_form=form))


@page(side="customer", post_role=Role.ADMIN)
@require_POST
def turn_off(request: OrganizationRequest) -> HttpResponse:
    """Charge no card on its own any more."""
    auto_settings.turn_off(organization=request.organization, actor=request.actor, now=clock.now())
    messages.success(request, "Automatic top-ups are off.")
    return redirect("customer:credit")


@page(side="customer", role=Role.ADMIN)
def remove_card(request: OrganizationRequest, card: str) -> HttpResponse:
    """Ask, then let a saved card go."""
    found = cards.card_of(organization=request.organization, public_id=card)
    if request.method == "POST":
        card_services.remove(organization=request.organization, public_id=card, actor=request.actor, now=clock.now())
        messages.success(request, f"The card ending in {found.last4} is removed and never charged again.")
        return redirect("customer:credit")
    if found.removed_at is not None:
        raise NotFound("this card was removed")
    plan = auto_topups.plan_of(organization=request.organization)
    return render(request, "customer/card_remove.html", {"card": found, "plan": plan})


@may_lead_to_stripe
@page(side="customer", post_role=Role.ADMIN)
@require_POST
def alert(request: OrganizationRequest) -> HttpResponse:
    """Choose below which credit the owners get an e-mail."""
    organization, now = request.organization, clock.now()
    form = AlertForm(request.POST, alert=auto_topups.alert_of(organization=organization))
    if form.is_valid():
        minor = form.cleaned_data["threshold"]
        nano = None if minor is None else money.nano_from_minor(minor, settings.CURRENCY)
        if take(
            form,
            lambda: credit_alerts.set_alert(
                organization=organization, threshold_nano=nano, actor=request.actor, now=now
            ),
        ):
            messages.success(request, "The alert is set." if nano else "There will be no alert.")
            return redirect("customer:credit")
    return render(request, "customer/credit.html", context(request, now=now, alert_form=form))


urlpatterns = [
    path("credit/auto/", turn_on, name="auto-topup"),
    path("credit/auto/off/", turn_off, name="auto-topup-off"),
    path("credit/alert/", alert, name="credit-alert"),
    path("credit/cards/<str:card>/remove/", remove_card, name="card-remove"),
]
