"""Operator pages: a provider's money and trust: its tier, its reserve, its schedule and its corrections."""

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.billing.rules.trust_tiers import TERMS, Tier
from portal.billing.selectors import adjustments, balances, earnings, provider_tiers
from portal.billing.services import tiers
from portal.core import clock
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.selectors import outlook as outlooks
from portal.payouts.selectors import payouts
from portal.providers.selectors import providers

_BY_FACTS = "facts"


class TierForm(forms.Form):
    """Which tier, and why."""

    tier = forms.ChoiceField(choices=[(_BY_FACTS, "As the facts say"), *((tier.value, tier.value) for tier in Tier)])
    reason = forms.CharField(
        max_length=240, required=False, help_text="Needed to set a tier; the provider reads it, word for word."
    )

    def clean(self) -> None:
        """Ask for the reason where a tier is set."""
        given = self.cleaned_data
        if given.get("tier") != _BY_FACTS and not given.get("reason", "").strip():
            self.add_error("reason", "give the reason; the provider will read it")


@operator_page
def standing(request: OperatorRequest, provider_id: str) -> HttpResponse:
    """Show the provider's balances, tier, reserve and corrections; a POST sets the tier."""
    provider, now = providers.provider(provider_id), clock.now()
    seen = provider_tiers.standing(provider, now=now)
    initial = {"tier": seen.pin.tier, "reason": seen.pin.reason} if seen.pin else {"tier": _BY_FACTS}
    form = TierForm(request.POST or None, initial=initial)
    if request.method == "POST" and form.is_valid():
        _set(request, provider_id, form)
        messages.success(request, "The tier holds for what is earned and matures from now on.")
        return redirect("operators:standing", provider_id=provider_id)
    context = {
        "provider": provider,
        "standing": seen,
        "tiers": [(tier.value, terms) for tier, terms in TERMS.items()],
        "form": form,
        "balance": balances.provider_balance(provider=provider.public_id),
        "outlook": outlooks.outlook(provider=provider, now=now),
        "reserve": earnings.kept_back(provider=provider.public_id),
        "maturing": earnings.maturing(provider=provider.public_id),
        "adjustments": adjustments.adjustments_of(provider=provider),
        "payouts": payouts.payouts_of(provider=provider, limit=10),
        "reserve_days": settings.PAYOUT_RESERVE_DAYS,
    }
    return render(request, "operators/standing.html", context)


def _set(request: OperatorRequest, provider_id: str, form: TierForm) -> None:
    now, chosen = clock.now(), form.cleaned_data["tier"]
    if chosen == _BY_FACTS:
        tiers.unpin_tier(provider_id=provider_id, actor=request.actor, now=now)
        return
    tiers.pin_tier(
        provider_id=provider_id,
        tier=Tier(chosen),
        reason=form.cleaned_data["reason"],
        actor=request.actor,
        now=now,
    )


urlpatterns = [path("standing/<str:provider_id>/", standing, name="standing")]
