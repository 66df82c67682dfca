"""Organization pages: begin one, switch between them, its name and sides. Main route `organization:settings`."""

from django import forms
from django.contrib import messages
from django.core.exceptions import BadRequest
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.accounts.services import organizations
from portal.billing.services import related
from portal.core import clock
from portal.core.errors import NotFound
from portal.web.access import SESSION_ORGANIZATION, SESSION_SIDE, OrganizationRequest, PersonRequest, page, person_page
from portal.web.countries import COUNTRIES
from portal.web.public.home import home_route

_SIDES = [
    ("customer", "Customer: call models through the API and pay for the tokens used"),
    ("provider", "Provider: join with GPU servers and be paid for the tokens they deliver"),
]


class CreateForm(forms.Form):
    """What a new organization is called and what it is here for."""

    name = forms.CharField(max_length=120, help_text="Your company, team or your own name.")
    country = forms.ChoiceField(choices=COUNTRIES)
    sides = forms.MultipleChoiceField(
        label="What will it do here?",
        choices=_SIDES,
        initial=["customer"],
        widget=forms.CheckboxSelectMultiple,
        help_text="One organization can do both, and a side can be opened later.",
    )


class NameForm(forms.Form):
    """The name alone."""

    name = forms.CharField(max_length=120)


@person_page
def create(request: PersonRequest) -> HttpResponse:
    """Begin an organization and act for it from then on."""
    form = CreateForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        sides = form.cleaned_data["sides"]
        made = organizations.create_organization(
            name=form.cleaned_data["name"],
            owner=request.user,
            country=form.cleaned_data["country"],
            is_customer="customer" in sides,
            is_provider="provider" in sides,
            now=clock.now(),
        )
        related.note_sign_in(user=request.user, address=request.actor.address, now=clock.now())
        request.session[SESSION_ORGANIZATION] = made.public_id
        request.session.pop(SESSION_SIDE, None)
        messages.success(request, f"{made.name} is ready.")
        return redirect("provider:overview" if "provider" in sides else "customer:overview")
    return render(request, "organization/create.html", {"form": form})


@person_page
@require_POST
def switch(request: PersonRequest) -> HttpResponse:
    """Act for another of the person's organizations. Raises NotFound for one they do not belong to."""
    wanted = request.POST.get("organization", "")
    for membership in request.memberships:
        if membership.organization.public_id == wanted:
            request.session[SESSION_ORGANIZATION] = wanted
            request.session.pop(SESSION_SIDE, None)
            return redirect(home_route(membership.organization))
    raise NotFound("no such organization")


@page(side="any", post_role=Role.ADMIN)
def settings(request: OrganizationRequest) -> HttpResponse:
    """Show the organization; its name can be changed."""
    form = NameForm(request.POST or None, initial={"name": request.organization.name})
    if request.method == "POST" and form.is_valid():
        organizations.rename_organization(
            organization=request.organization, name=form.cleaned_data["name"], actor=request.actor, now=clock.now()
        )
        messages.success(request, "The name is changed.")
        return redirect("organization:settings")
    return render(request, "organization/settings.html", {"form": form})


@page(side="any", role=Role.READ_ONLY, post_role=Role.ADMIN)
@require_POST
def open_side(request: OrganizationRequest) -> HttpResponse:
    """Open the customer or the provider side."""
    side = request.POST.get("side", "")
    if side not in dict(_SIDES):
        raise BadRequest("side is customer or provider")
    organizations.open_side(organization=request.organization, side=side, actor=request.actor, now=clock.now())
    return redirect(f"{side}:overview")


urlpatterns = [
    path("organization/new/", create, name="create"),
    path("organization/switch/", switch, name="switch"),
    path("organization/", settings, name="settings"),
    path("organization/sides/", open_side, name="open-side"),
]
