"""The provider's profile, its approval and the agreement. Main route `provider:profile`."""

from datetime import datetime

from django import forms
from django.contrib import messages
from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path

from portal.accounts.models import Role
from portal.core import clock
from portal.core.errors import DomainError
from portal.payouts.errors import SecondFactorNeeded
from portal.payouts.services import identity
from portal.providers.models import Provider, ProviderState
from portal.providers.selectors import agreements
from portal.providers.selectors.providers import provider_of
from portal.providers.services import agreements as agreement_services
from portal.providers.services import profile as services
from portal.web.access import OrganizationRequest, ProviderRequest, page, provider_page
from portal.web.countries import COUNTRIES
from portal.web.second_factor import confirmed_at, lead_to_it


class ProfileForm(forms.Form):
    """Who the provider is."""

    legal_name = forms.CharField(max_length=160, help_text="As in the register, or your full name.")
    contact_email = forms.EmailField(label="Contact e-mail", help_text="The pool writes here when a node needs you.")
    country = forms.ChoiceField(choices=[("", "Choose…"), *COUNTRIES], help_text="Where the provider is established.")


@page(side="provider", post_role=Role.ADMIN)
def profile(request: OrganizationRequest) -> HttpResponseBase:
    """Show and change the profile; the first save makes the organization a provider."""
    now = clock.now()
    provider = provider_of(organization=request.organization)
    form = ProfileForm(request.POST or None, initial=_initial(request, provider))
    if request.method == "POST" and form.is_valid():
        try:
            _save(request, provider, form, now)
        except SecondFactorNeeded:
            return lead_to_it(request, back=request.path) or redirect("provider:profile")
        except DomainError as error:
            form.add_error(error.param if error.param in form.fields else None, error.sentences)
        else:
            messages.success(request, "The profile is saved.")
            return redirect("provider:profile")
    context = {"form": form, "provider": provider, **_standing(provider, now)}
    return render(request, "provider/profile.html", context)


@provider_page(role=Role.ADMIN)
def submit(request: ProviderRequest) -> HttpResponse:
    """Hand the profile to the operator, after asking."""
    if request.method == "POST":
        services.submit_provider(provider_id=request.provider.public_id, actor=request.actor, now=clock.now())
        messages.success(request, "The profile is with the operator now.")
        return redirect("provider:profile")
    return render(request, "provider/profile_submit.html", {"provider": request.provider})


@provider_page(post_role=Role.ADMIN)
def agreement(request: ProviderRequest) -> HttpResponse:
    """Show the agreement in force; a POST that names its version accepts it."""
    now = clock.now()
    if request.method == "POST":
        agreement_services.accept_agreement(
            provider_id=request.provider.public_id,
            version=request.POST.get("version", ""),
            accepted_by=request.user,
            actor=request.actor,
            now=now,
        )
        messages.success(request, "The agreement is accepted.")
        return redirect("provider:profile")
    return render(
        request, "provider/agreement.html", {"provider": request.provider, **_standing(request.provider, now)}
    )


def _initial(request: OrganizationRequest, provider: Provider | None) -> dict[str, str]:
    if provider is None:
        return {
            "legal_name": request.organization.name,
            "contact_email": request.user.email,
            "country": request.organization.country,
        }
    return {
        "legal_name": provider.legal_name,
        "contact_email": provider.contact_email,
        "country": provider.country,
    }


def _save(request: OrganizationRequest, provider: Provider | None, form: ProfileForm, now: datetime) -> None:
    given = services.Profile(**form.cleaned_data)
    if provider is None:
        services.create_provider(organization=request.organization, profile=given, actor=request.actor, now=now)
    else:
        who = identity.Who(actor=request.actor, confirmed_at=confirmed_at(request))
        identity.change_profile(provider_id=provider.public_id, given=given, who=who, now=now)


def _standing(provider: Provider | None, now: datetime) -> dict[str, object]:
    """Return the steps from profile to serving, and the agreement."""
    if provider is None:
        return {"steps": [], "agreement": None, "acceptance": None, "can_submit": False}
    current = agreements.current_agreement(now=now)
    acceptance = agreements.acceptance(provider=provider, agreement=current) if current else None
    is_accepted = current is None or acceptance is not None
    return {
        "agreement": current,
        "acceptance": acceptance,
        "can_submit": provider.state in {ProviderState.DRAFT, ProviderState.REJECTED},
        "steps": [
            ("Profile", "accepted", "Filled in."),
            ("Agreement", "accepted" if is_accepted else "action_required", "An owner or admin accepts it."),
            ("Approval by the operator", provider.state, provider.state_reason),
            (
                "Identification",
                "identified" if provider.is_identified else "unidentified",
                "The payment partner asks who you are when you set up payouts.",
            ),
        ],
    }


urlpatterns = [
    path("profile/", profile, name="profile"),
    path("profile/submit/", submit, name="profile-submit"),
    path("agreement/", agreement, name="agreement"),
]
