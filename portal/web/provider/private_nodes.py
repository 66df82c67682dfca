"""The provider's private nodes: who may use a node, and the provider's own prices. Route `provider:node-private`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path, reverse

from portal.accounts.models import Role
from portal.billing.models import PriceVersion
from portal.billing.price_form import TermsForm, initial_of, preview
from portal.billing.selectors import prices as price_selectors
from portal.billing.services import prices as price_services
from portal.catalog.models import CatalogModel
from portal.core import clock
from portal.core.errors import DomainError
from portal.core.moment_field import MomentField
from portal.nodes.models import Node
from portal.nodes.selectors import guests as guest_selectors
from portal.nodes.selectors import nodes as selectors
from portal.nodes.services import guests
from portal.web.access import ProviderRequest, provider_page


class GuestForm(forms.Form):
    """Whom a private node is shown to."""

    organization = forms.CharField(
        max_length=40,
        label="Organization",
        help_text="Its id, which its owner finds on the page of the organization; it begins with org_.",
    )


class PrivatePriceForm(TermsForm):
    """What the provider asks for a model on its private nodes, and from when."""

    effective_from = MomentField(
        help_text="Leave empty for now. A dearer price reaches a guest only once it has accepted it."
    )


@provider_page(post_role=Role.ADMIN)
def private(request: ProviderRequest, node_id: str) -> HttpResponse:
    """Show who may use the node; a POST makes it private or public again, or names a guest."""
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    is_naming = request.method == "POST" and "visibility" not in request.POST
    form = GuestForm(request.POST if is_naming else None)
    if request.method == "POST" and not is_naming:
        _set_visibility(request, row)
        return redirect("provider:node-private", node_id=node_id)
    if is_naming and form.is_valid() and _name_guest(request, row, form):
        return redirect("provider:node-private", node_id=node_id)
    now = clock.now()
    context = {
        "node": row,
        "form": form,
        "guests": guest_selectors.guests_of(node=row),
        "prices": _priced_models(row, now),
    }
    return render(request, "provider/node_private.html", context)


@provider_page(post_role=Role.ADMIN)
def remove_guest(request: ProviderRequest, node_id: str, organization: str) -> HttpResponse:
    """Hide the node from an organization again, after asking."""
    row = selectors.node_of(provider=request.provider, public_id=node_id)
    if request.method == "POST":
        guests.remove_guest(node_id=row.public_id, organization_id=organization, actor=request.actor, now=clock.now())
        messages.success(request, f"{organization} no longer sees {row.name}.")
        return redirect("provider:node-private", node_id=node_id)
    cancel = reverse("provider:node-private", args=[node_id])
    return render(request, "nodes/guest_remove.html", {"node": row, "organization": organization, "cancel": cancel})


@provider_page(post_role=Role.ADMIN)
def private_price(request: ProviderRequest, model_id: str) -> HttpResponse:
    """Show the provider's private prices of a model; preview a new one, then set it."""
    now = clock.now()
    model = selectors.deployed_model(provider=request.provider, public_id=model_id)
    current = price_selectors.prices_at(at=now, provider_id=request.provider.pk).get(model.pk)
    public = price_selectors.prices_at(at=now).get(model.pk)
    form = PrivatePriceForm(request.POST or None, initial=initial_of(current or public))
    shown = None
    if request.method == "POST" and form.is_valid():
        if "confirm" in request.POST and _set_price(request, model, form, now):
            return redirect("provider:private-price", model_id=model.public_id)
        share_bps = price_selectors.share_at(provider_id=request.provider.pk, at=now)
        shown = preview(form.terms(), current=current or public, share_bps=share_bps)
    context = {
        "model": model,
        "history": price_selectors.price_history(model_id=model.pk, provider_id=request.provider.pk),
        "current": current,
        "public": public,
        "form": form,
        "preview": shown,
        "now": now,
    }
    return render(request, "provider/private_price.html", context)


def _set_visibility(request: ProviderRequest, row: Node) -> None:
    is_private = request.POST["visibility"] == "private"
    guests.set_private(node_id=row.public_id, is_private=is_private, actor=request.actor, now=clock.now())
    word = "private: only its guests reach it" if is_private else "in the public pool"
    messages.success(request, f"{row.name} is {word}.")


def _name_guest(request: ProviderRequest, row: Node, form: GuestForm) -> bool:
    named = form.cleaned_data["organization"].strip()
    try:
        guests.name_guest(node_id=row.public_id, organization_id=named, actor=request.actor, now=clock.now())
    except DomainError as refusal:
        form.add_error("organization", refusal.sentences)
        return False
    messages.success(request, f"{named} sees the node now, and is served by it once it has accepted the price.")
    return True


def _priced_models(row: Node, now: datetime) -> list[tuple[CatalogModel, PriceVersion | None, PriceVersion | None]]:
    own = price_selectors.prices_at(at=now, provider_id=row.provider_id)
    public = price_selectors.prices_at(at=now)
    models = [deployment.model for deployment in selectors.deployments_of(node=row)]
    return [(model, own.get(model.pk), public.get(model.pk)) for model in models]


def _set_price(request: ProviderRequest, model: CatalogModel, form: PrivatePriceForm, now: datetime) -> bool:
    try:
        version = price_services.set_price(
            model=model,
            terms=form.terms(),
            actor=request.actor,
            now=now,
            effective_from=form.cleaned_data["effective_from"],
            provider=request.provider,
        )
    except DomainError as refusal:
        form.add_error(None, refusal.sentences)
        return False
    messages.success(request, f"Version {version.version} of your private price of {model.public_id} is set.")
    return True


urlpatterns = [
    path("nodes/<str:node_id>/private/", private, name="node-private"),
    path("nodes/<str:node_id>/guests/<str:organization>/remove/", remove_guest, name="guest-remove"),
    path("prices/<path:model_id>/", private_price, name="private-price"),
]
