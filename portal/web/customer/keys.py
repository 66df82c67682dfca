"""API keys: list, one key, create (the text is shown once, in the answer to the POST), change, revoke."""

from datetime import datetime

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import ApiKey, Role
from portal.accounts.selectors import keys as key_selectors
from portal.accounts.selectors import sightings
from portal.accounts.services import keys as key_services
from portal.billing.selectors.key_spend import spent_by_key
from portal.core import clock
from portal.core.errors import DomainError
from portal.web.access import OrganizationRequest, page
from portal.web.customer import key_view
from portal.web.customer.key_form import KeyForm
from portal.web.customer.snippets import curl_example
from portal.web.term_fields import refuse


@page(side="customer")
def keys(request: OrganizationRequest) -> HttpResponse:
    """List the organization's keys: what each may do, has spent, and where it was used last."""
    now = clock.now()
    organization = request.organization
    rows = list(key_selectors.list_keys(organization=organization))
    spent = spent_by_key(organization_id=organization.pk, since=now.date().replace(day=1), until=now.date())
    budgets = key_view.shown_budgets(
        [(key.public_id, "this key", key) for key in rows], zone=organization.time_zone, now=now
    )
    places = sightings.last_places(organization=organization)
    shown = [
        key_view.key_row(
            key, budget=budgets.get(key.public_id), spent_nano=spent.get(key.pk, 0), places=places, now=now
        )
        for key in rows
    ]
    alerts = key_view.alert_rows(sightings.recent_alerts(organization=organization))
    return render(request, "customer/keys.html", {"rows": shown, "alerts": alerts, "zone": organization.time_zone})


@page(side="customer")
def key(request: OrganizationRequest, key: str) -> HttpResponse:
    """Show one key: its terms, the budgets it draws on, its secrets, and from where it was used."""
    now = clock.now()
    found = key_selectors.get_key(organization=request.organization, public_id=key)
    places = list(sightings.places_of(key=found))
    context = {
        "key": found,
        "state": key_view.state_of(found, now),
        "is_in_grace": found.grace_until is not None and found.grace_until > now,
        "budgets": key_view.budgets_of(found, now=now),
        "limits": key_view.limits_text(found),
        "places": places,
        "old_secret_seen_at": _old_secret_seen(found, [place.old_secret_seen_at for place in places]),
        "alerts": key_view.alert_rows(sightings.alerts_of(key=found)),
    }
    return render(request, "customer/key.html", context)


@page(side="customer", role=Role.MEMBER)
def create(request: OrganizationRequest) -> HttpResponse:
    """Ask for the terms; the answer to the POST shows the key's text once."""
    form = KeyForm(request.POST or None, organization=request.organization)
    if request.method == "POST" and form.is_valid():
        try:
            made = key_services.create_key(
                organization=request.organization,
                terms=form.terms(),
                created_by=request.user,
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            refuse(form, error)
        else:
            return show_once(request, made)
    return render(request, "customer/key_new.html", {"form": form, "currency": settings.CURRENCY.upper()})


@page(side="customer", role=Role.MEMBER)
def change(request: OrganizationRequest, key: str) -> HttpResponse:
    """Ask for other terms of a live key."""
    found = key_selectors.get_key(organization=request.organization, public_id=key)
    key_services.require_live(found)
    form = KeyForm(request.POST or None, organization=request.organization, key=found)
    if request.method == "POST" and form.is_valid():
        try:
            key_services.change_key(
                organization=request.organization,
                public_id=key,
                terms=form.terms(),
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            refuse(form, error)
        else:
            messages.success(request, f"{form.cleaned_data['name']} is changed; every gateway knows within a second.")
            return redirect("customer:key", key=key)
    context = {"form": form, "key": found, "currency": settings.CURRENCY.upper()}
    return render(request, "customer/key_change.html", context)


@page(side="customer", role=Role.MEMBER)
def revoke(request: OrganizationRequest, key: str) -> HttpResponse:
    """Ask, then revoke."""
    found = key_selectors.get_key(organization=request.organization, public_id=key)
    if request.method == "POST":
        key_services.revoke_key(organization=request.organization, public_id=key, actor=request.actor, now=clock.now())
        messages.success(request, f"{found.name} is revoked; every gateway refuses it within a second.")
        return redirect("customer:keys")
    return render(request, "customer/key_revoke.html", {"key": found})


def show_once(request: OrganizationRequest, made: key_services.CreatedKey) -> HttpResponse:
    """Show a key's text, which exists only in this answer."""
    context = {
        "key": made.key,
        "text": made.text,
        "example": curl_example(made.text),
        "budgets": key_view.budgets_of(made.key, now=clock.now()),
        "zone": request.organization.time_zone,
    }
    return render(request, "customer/key_created.html", context)


def _old_secret_seen(found: ApiKey, seen: list[datetime | None]) -> datetime | None:
    """Return when a secret from before the last rotation was used after it."""
    since = found.rotated_at
    later = [moment for moment in seen if moment is not None and since is not None and moment >= since]
    return max(later, default=None)


urlpatterns = [
    path("keys/", keys, name="keys"),
    path("keys/new/", create, name="key-new"),
    path("keys/<str:key>/", key, name="key"),
    path("keys/<str:key>/change/", change, name="key-change"),
    path("keys/<str:key>/revoke/", revoke, name="key-revoke"),
]
