"""Operator pages: prices and shares. The main page's route is named `operators:prices`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path

from portal.billing.price_form import TermsForm, initial_of, preview
from portal.billing.selectors import prices as price_selectors
from portal.billing.services import prices as price_services
from portal.catalog.models import CatalogModel
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.core.money import BPS
from portal.operators.access import OperatorRequest, operator_page
from portal.providers.models import Provider, ProviderKind


class PriceForm(TermsForm):
    """A price, and from when."""

    effective_from = MomentField(help_text="Leave empty for now. Running requests keep the price they began with.")


class ShareForm(forms.Form):
    """What providers get of a charge, and from when."""

    provider = forms.ModelChoiceField(
        Provider.objects.none(), required=False, empty_label="The whole pool (default)", label="For"
    )
    percent = forms.DecimalField(label="Provider's share, percent", min_value=0, max_value=100, decimal_places=2)
    effective_from = MomentField(help_text="Leave empty for now.")


def _share_form(request: OperatorRequest) -> ShareForm:
    form = ShareForm(request.POST if request.method == "POST" else None)
    choice = form.fields["provider"]
    if isinstance(choice, forms.ModelChoiceField):
        choice.queryset = Provider.objects.exclude(kind=ProviderKind.HOUSE).order_by("legal_name", "pk")
    return form


@operator_page
def prices(request: OperatorRequest) -> HttpResponse:
    """List every model with its price now and the next one, and the shares; set a share."""
    now = clock.now()
    form = _share_form(request)
    if request.method == "POST" and form.is_valid() and _set_share(request, form, now):
        return redirect("operators:prices")
    current = price_selectors.prices_at(at=now)
    models = CatalogModel.objects.order_by("public_id")[:500]
    context = {
        "rows": [(model, current.get(model.pk)) for model in models],
        "upcoming": price_selectors.all_upcoming(now=now),
        "default_bps": price_selectors.share_at(provider_id=None, at=now),
        "shares": price_selectors.share_history(),
        "form": form,
        "now": now,
    }
    return render(request, "operators/prices.html", context)


@operator_page
def model_prices(request: OperatorRequest, model_id: int) -> HttpResponse:
    """Show a model's price history; preview a new price, then set it."""
    now = clock.now()
    model = get_object_or_404(CatalogModel, pk=model_id)
    current = price_selectors.prices_at(at=now).get(model.pk)
    form = PriceForm(request.POST or None, initial=initial_of(current))
    shown = None
    if request.method == "POST" and form.is_valid():
        if "confirm" in request.POST and _set_price(request, model, form, now):
            return redirect("operators:model-prices", model_id=model.pk)
        share_bps = price_selectors.share_at(provider_id=None, at=now)
        shown = preview(form.terms(), current=current, share_bps=share_bps)
    context = {
        "model": model,
        "history": price_selectors.price_history(model_id=model.pk),
        "private": price_selectors.private_history(model_id=model.pk),
        "current": current,
        "form": form,
        "preview": shown,
        "now": now,
    }
    return render(request, "operators/model_prices.html", context)


def _set_price(request: OperatorRequest, model: CatalogModel, form: PriceForm, now: datetime) -> bool:
    try:
        version = price_services.set_price(
            model=model,
            terms=form.terms(),
            actor=request.actor,
            now=now,
            effective_from=form.cleaned_data["effective_from"],
        )
    except DomainError as refusal:
        form.add_error(None, refusal.sentences)
        return False
    messages.success(request, f"Price version {version.version} of {model.public_id} is set.")
    return True


def _set_share(request: OperatorRequest, form: ShareForm, now: datetime) -> bool:
    try:
        price_services.set_share(
            provider=form.cleaned_data["provider"],
            share_bps=int(form.cleaned_data["percent"] * BPS / 100),
            actor=request.actor,
            now=now,
            effective_from=form.cleaned_data["effective_from"],
        )
    except DomainError as refusal:
        form.add_error(None, refusal.sentences)
        return False
    messages.success(request, "The share is set.")
    return True


urlpatterns = [
    path("prices/", prices, name="prices"),
    path("prices/<int:model_id>/", model_prices, name="model-prices"),
]
