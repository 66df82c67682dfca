"""Operator pages: organizations, their state, and invitations into the pool. Route `operators:customers`."""

from dataclasses import asdict

from django import forms
from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Organization
from portal.accounts.rules.terms import LimitTerms
from portal.accounts.selectors import invitations, members, organizations
from portal.accounts.services import invitations as invitation_services
from portal.accounts.services import organization_terms
from portal.accounts.services.organizations import reinstate_organization, suspend_organization
from portal.audit.selectors import events_of
from portal.billing.selectors.balances import customer_balance
from portal.core import clock
from portal.core.errors import DomainError
from portal.operators.access import OperatorRequest, operator_page
from portal.providers.selectors.providers import provider_of


class InviteForm(forms.Form):
    """Whom to invite into the pool."""

    email = forms.EmailField(label="E-mail address", widget=forms.EmailInput(attrs={"autocomplete": "off"}))


class ReasonForm(forms.Form):
    """Why an organization is stopped or let go on."""

    reason = forms.CharField(max_length=240, help_text="Kept in the audit log.")


class CeilingsForm(forms.Form):
    """What the operator lets an organization do at most, over all its keys."""

    requests_per_minute = forms.IntegerField(required=False, min_value=1)
    tokens_per_minute = forms.IntegerField(required=False, min_value=1)
    parallel_requests = forms.IntegerField(label="Requests at once", required=False, min_value=1)


@operator_page
def customers(request: OperatorRequest) -> HttpResponse:
    """List organizations; invite people into the pool."""
    now = clock.now()
    form = InviteForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            invitation_services.invite_to_pool(
                email=form.cleaned_data["email"], invited_by=request.user, actor=request.actor, now=now
            )
        except DomainError as error:
            form.add_error("email", error.sentences)
        else:
            messages.success(request, f"An invitation is on its way to {form.cleaned_data['email']}.")
            return redirect("operators:customers")
    search = request.GET.get("search", "").strip()
    context = {
        "form": form,
        "search": search,
        "signup": settings.SIGNUP,
        "rows": organizations.list_organizations(search=search),
        "invitations": invitations.open_invitations(organization=None, now=now),
    }
    return render(request, "operators/customers.html", context)


@operator_page
def customer(request: OperatorRequest, organization: str) -> HttpResponse:
    """Show one organization; a POST with a reason suspends it, or lets it act again."""
    row = organizations.get_organization(public_id=organization)
    form = ReasonForm(request.POST if "reason" in request.POST else None)
    if form.is_bound and form.is_valid():
        move = suspend_organization if row.state == "active" else reinstate_organization
        move(public_id=organization, reason=form.cleaned_data["reason"], actor=request.actor, now=clock.now())
        return redirect("operators:customer", organization=organization)
    return _page(request, row, form, None)


@operator_page
def customer_ceilings(request: OperatorRequest, organization: str) -> HttpResponse:
    """Set what the organization may do at most."""
    form = CeilingsForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        organization_terms.set_ceilings(
            public_id=organization, ceilings=LimitTerms(**form.cleaned_data), actor=request.actor, now=clock.now()
        )
        messages.success(request, "The ceilings are set; every gateway knows within a second.")
        return redirect("operators:customer", organization=organization)
    return _page(request, organizations.get_organization(public_id=organization), ReasonForm(), form)


def _page(request: OperatorRequest, row: Organization, form: ReasonForm, ceilings: CeilingsForm | None) -> HttpResponse:
    context = {
        "row": row,
        "form": form,
        "ceilings": ceilings or CeilingsForm(initial=asdict(organization_terms.ceilings_of(row))),
        "members": members.members_of(organization=row),
        "balance": customer_balance(organization=row.public_id),
        "provider": provider_of(organization=row),
        "events": events_of(organization=row.public_id),
    }
    return render(request, "operators/customer.html", context)


urlpatterns = [
    path("customers/", customers, name="customers"),
    path("customers/<str:organization>/", customer, name="customer"),
    path("customers/<str:organization>/ceilings/", customer_ceilings, name="customer-ceilings"),
]
