"""Operator pages: what providers get of a charge, by provider, by tier and by default. Route `operators:shares`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.billing.models import ShareTier
from portal.billing.selectors import prices as price_selectors
from portal.billing.selectors import shares as share_selectors
from portal.billing.services import prices as price_services
from portal.billing.services import share_tiers
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.core.money import BPS
from portal.operators.access import OperatorRequest, operator_page
from portal.providers.models import Provider, ProviderKind

_LATER = "Leave empty for now. Running requests keep the share they began with."


class ShareForm(forms.Form):
    """What providers get of a charge, and from when."""

    provider = forms.ModelChoiceField(
        Provider.objects.exclude(kind=ProviderKind.HOUSE).order_by("legal_name", "pk"),
        required=False,
        empty_label="No single provider",
    )
    tier = forms.ModelChoiceField(
        ShareTier.objects.order_by("name"),
        required=False,
        empty_label="No tier",
        help_text="Without a provider and a tier it is the default of the whole pool.",
    )
    percent = forms.DecimalField(
        label="Share, percent",
        min_value=0,
        max_value=100,
        decimal_places=2,
        required=False,
        help_text="Leave empty to end a provider's or a tier's own share.",
    )
    effective_from = MomentField(help_text=_LATER)

    def share_bps(self) -> int | None:
        """Return basis points, None where the own share ends."""
        percent = self.cleaned_data["percent"]
        return None if percent is None else int(percent * BPS / 100)


class TierForm(forms.Form):
    """A new tier."""

    name = forms.CharField(label="Name of the tier", max_length=40, help_text="Such as standard or verified.")


class MoveForm(forms.Form):
    """Which provider goes into which tier, and from when."""

    provider = forms.ModelChoiceField(Provider.objects.exclude(kind=ProviderKind.HOUSE).order_by("legal_name", "pk"))
    tier = forms.ModelChoiceField(ShareTier.objects.order_by("name"), required=False, empty_label="Out of all tiers")
    effective_from = MomentField(help_text=_LATER)


@operator_page
def shares(request: OperatorRequest) -> HttpResponse:
    """Show shares and tiers; a POST sets a share, makes a tier or moves a provider."""
    now = clock.now()
    what = request.POST.get("what", "") if request.method == "POST" else ""
    given = {name: request.POST if what == name else None for name in ("share", "tier", "move")}
    share_form = ShareForm(given["share"], prefix="share")
    tier_form = TierForm(given["tier"], prefix="tier")
    move_form = MoveForm(given["move"], prefix="move")
    done = (
        (what == "share" and share_form.is_valid() and _set_share(request, share_form, now))
        or (what == "tier" and tier_form.is_valid() and _make_tier(request, tier_form, now))
        or (what == "move" and move_form.is_valid() and _move(request, move_form, now))
    )
    if done:
        return redirect("operators:shares")
    of_tier = share_selectors.tier_shares_at(at=now)
    context = {
        "default_bps": price_selectors.share_at(provider_id=None, at=now),
        "tiers": [(tier, of_tier.get(tier.pk)) for tier in share_selectors.tiers()],
        "members": share_selectors.members_at(at=now),
        "history": share_selectors.share_history(),
        "share_form": share_form,
        "tier_form": tier_form,
        "move_form": move_form,
        "now": now,
    }
    return render(request, "operators/shares.html", context)


def _set_share(request: OperatorRequest, form: ShareForm, now: datetime) -> bool:
    try:
        price_services.set_share(
            provider=form.cleaned_data["provider"],
            tier=form.cleaned_data["tier"],
            share_bps=form.share_bps(),
            actor=request.actor,
            now=now,
            effective_from=form.cleaned_data["effective_from"],
        )
    except DomainError as refusal:
        form.add_error(None, refusal.sentences)
        return False
    messages.success(request, "The share is set.")
    return True


def _make_tier(request: OperatorRequest, form: TierForm, now: datetime) -> bool:
    try:
        share_tiers.make_tier(name=form.cleaned_data["name"], actor=request.actor, now=now)
    except DomainError as refusal:
        form.add_error("name", refusal.sentences)
        return False
    messages.success(request, "The tier is made. Give it a share.")
    return True


def _move(request: OperatorRequest, form: MoveForm, now: datetime) -> bool:
    try:
        share_tiers.move_provider(
            provider=form.cleaned_data["provider"],
            tier=form.cleaned_data["tier"],
            actor=request.actor,
            now=now,
            effective_from=form.cleaned_data["effective_from"],
        )
    except DomainError as refusal:
        form.add_error(None, refusal.sentences)
        return False
    messages.success(request, "The provider is moved.")
    return True


urlpatterns = [path("shares/", shares, name="shares")]
