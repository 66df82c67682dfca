"""Operator pages: the public prices. The main page's route is named `operators:prices`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import path

from portal.billing.models import PriceVersion
from portal.billing.price_form import TermsForm, initial_of, preview
from portal.billing.selectors import price_previews
from portal.billing.selectors import prices as price_selectors
from portal.billing.services import price_ends
from portal.billing.services import prices as price_services
from portal.catalog.models import CatalogModel
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.operators.access import OperatorRequest, operator_page


class PriceForm(TermsForm):
    """A price, and from when."""

    effective_from = MomentField(help_text="Leave empty for now. Running requests keep the price they began with.")


class EndForm(forms.Form):
    """Why a price is taken back."""

    reason = forms.CharField(label="Reason", max_length=240, help_text="Kept in the audit log.")


@operator_page
def prices(request: OperatorRequest) -> HttpResponse:
    """List every model with its price now and the next one."""
    now = clock.now()
    current = price_selectors.prices_at(at=now)
    models = CatalogModel.objects.order_by("public_id")[:500]
    context = {
        "rows": [(model, current.get(model.pk)) for model in models],
        "upcoming": price_selectors.all_upcoming(now=now),
    }
    return render(request, "operators/prices.html", context)


@operator_page
def model_prices(request: OperatorRequest, model_id: int) -> HttpResponse:
    """Show a model's price history; preview a new price on the last 30 days, then set it."""
    now = clock.now()
    model = get_object_or_404(CatalogModel, pk=model_id)
    current = price_selectors.prices_at(at=now).get(model.pk)
    form = PriceForm(request.POST or None, initial=initial_of(current))
    shown = past = None
    if request.method == "POST" and form.is_valid():
        if "confirm" in request.POST and _set_price(request, model, form, now):
            return redirect("operators:model-prices", model_id=model.pk)
        share_bps = price_selectors.share_at(provider_id=None, at=now)
        shown = preview(form.terms(), current=current, share_bps=share_bps)
        past = price_previews.preview(model_id=model.pk, terms=form.terms(), now=now)
    context = {
        "model": model,
        "history": price_selectors.price_history(model_id=model.pk),
        "private": price_selectors.private_history(model_id=model.pk),
        "current": current,
        "form": form,
        "preview": shown,
        "past": past,
        "now": now,
    }
    return render(request, "operators/model_prices.html", context)


@operator_page
def cancel(request: OperatorRequest, version_id: int) -> HttpResponse:
    """Take back a price that does not hold yet, after asking for the reason."""
    version = get_object_or_404(PriceVersion.objects.select_related("model"), pk=version_id, provider=None)
    form = EndForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            price_ends.cancel(
                version_id=version.pk, reason=form.cleaned_data["reason"], actor=request.actor, now=clock.now()
            )
        except DomainError as refusal:
            form.add_error(None, refusal.sentences)
        else:
            messages.success(request, f"Price version {version.version} of {version.model.public_id} is canceled.")
            return _to_list(version)
    return render(request, "operators/price_cancel.html", {"version": version, "form": form})


def _to_list(version: PriceVersion) -> HttpResponse:
    if version.organization_id is not None:
        return redirect("operators:agreements")
    return redirect("operators:model-prices", model_id=version.model_id)


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


urlpatterns = [
    path("prices/", prices, name="prices"),
    path("prices/<int:model_id>/", model_prices, name="model-prices"),
    path("prices/versions/<int:version_id>/cancel/", cancel, name="price-cancel"),
]
