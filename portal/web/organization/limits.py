"""What holds over all keys of the organization, when its days begin, and of what its owners hear."""

from functools import cache
from typing import cast
from zoneinfo import available_timezones

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Organization, Role
from portal.accounts.rules import roles
from portal.accounts.services import organization_terms
from portal.accounts.services.organization_terms import Alerts, OrganizationTerms
from portal.core import clock
from portal.core.errors import DomainError
from portal.web.access import OrganizationRequest, page
from portal.web.customer import key_view
from portal.web.term_fields import LIMIT_NAMES, BudgetFields, LimitFields, budget_initial, limits_initial, refuse


class TermsForm(LimitFields, BudgetFields):
    """The organization's own limits and budget."""

    field_order = ("budget_cap", "budget_period")

    def __init__(self, data: QueryDict | None, *, organization: Organization) -> None:
        shown = organization_terms.terms_of(organization)
        super().__init__(data, initial=budget_initial(shown.budget) | limits_initial(shown.limits))


class ZoneForm(forms.Form):
    """Where midnight is."""

    time_zone = forms.ChoiceField(
        label="Time zone",
        help_text="Days, weeks and months of budgets begin at its midnight. A change begins a window of its own.",
    )

    def __init__(self, *, chosen: str) -> None:
        super().__init__(initial={"time_zone": chosen})
        cast("forms.ChoiceField", self.fields["time_zone"]).choices = _zones()


class AlertsForm(forms.Form):
    """Of what owners hear."""

    new_network = forms.BooleanField(label="A key is used from a network that it was not used from", required=False)
    new_country = forms.BooleanField(label="A key is used from a country that it was not used from", required=False)
    spend_spike = forms.BooleanField(label="A key spends far more on a day than it used to", required=False)


@page(side="any", post_role=Role.ADMIN)
def limits(request: OrganizationRequest) -> HttpResponse:
    """Show limits and budget over all keys; an admin changes them."""
    form = TermsForm(request.POST or None, organization=request.organization)
    if request.method == "POST" and form.is_valid():
        try:
            organization_terms.change_terms(
                organization=request.organization,
                wanted=OrganizationTerms(limits=form.limits(), budget=form.budget()),
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            refuse(form, error)
        else:
            messages.success(request, "The limits are changed; every gateway knows within a second.")
            return redirect("organization:limits")
    return render(request, "organization/limits.html", _context(request, form))


@page(side="any", post_role=Role.ADMIN)
@require_POST
def time_zone(request: OrganizationRequest) -> HttpResponse:
    """Choose where midnight is."""
    organization_terms.set_time_zone(
        organization=request.organization,
        time_zone=request.POST.get("time_zone", ""),
        actor=request.actor,
        now=clock.now(),
    )
    messages.success(request, "The time zone is changed.")
    return redirect("organization:limits")


@page(side="any", post_role=Role.ADMIN)
@require_POST
def alerts(request: OrganizationRequest) -> HttpResponse:
    """Choose of what owners hear."""
    form = AlertsForm(request.POST)
    form.is_valid()  # boxes alone: every answer to them can be used
    organization_terms.set_alerts(
        organization=request.organization, alerts=Alerts(**form.cleaned_data), actor=request.actor, now=clock.now()
    )
    messages.success(request, "The messages are changed.")
    return redirect("organization:limits")


def _context(request: OrganizationRequest, form: TermsForm) -> dict[str, object]:
    row = request.organization
    budgets = key_view.shown_budgets(
        [(row.public_id, "the whole organization", row)], zone=row.time_zone, now=clock.now()
    )
    names = ("new_network", "new_country", "spend_spike")
    return {
        "form": form,
        "zone_form": ZoneForm(chosen=row.time_zone),
        "alerts_form": AlertsForm(initial={name: getattr(row, f"alerts_{name}") for name in names}),
        "budget": budgets.get(row.public_id),
        "ceilings": _ceilings(row),
        "own_limits": key_view.limits_text(row),
        "zone": row.time_zone,
        "may_manage": roles.includes(request.membership.role, Role.ADMIN),
        "currency": settings.CURRENCY.upper(),
    }


def _ceilings(row: Organization) -> list[str]:
    named = zip(LIMIT_NAMES, ("requests a minute", "tokens a minute", "requests at once"), strict=True)
    values = [(getattr(row, f"ceiling_{name}"), what) for name, what in named]
    return [f"{value:,} {what}" for value, what in values if value is not None]


@cache
def _zones() -> list[tuple[str, str]]:
    return [(name, name) for name in sorted(available_timezones())]


urlpatterns = [
    path("organization/limits/", limits, name="limits"),
    path("organization/time-zone/", time_zone, name="time-zone"),
    path("organization/alerts/", alerts, name="alerts"),
]
