"""Another secret for a key, and the end of the old one's grace."""

from datetime import timedelta

from django import forms
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.accounts.models import Role
from portal.accounts.selectors.keys import get_key
from portal.accounts.services import rotation
from portal.accounts.services.keys import require_live
from portal.core import clock
from portal.core.errors import DomainError
from portal.web.access import OrganizationRequest, page
from portal.web.customer.keys import show_once
from portal.web.term_fields import refuse


class RotateForm(forms.Form):
    """How long the old secret goes on."""

    grace_hours = forms.TypedChoiceField(
        label="The old secret works for",
        coerce=int,
        choices=[
            (0, "no longer: end it now"),
            (1, "another hour"),
            (24, "another day"),
            (168, "another week"),
            (720, "another 30 days"),
        ],
        initial=24,
        help_text="Time to give the new secret to every program. Both count on the same limits and the same budget.",
    )


@page(side="customer", role=Role.MEMBER)
def rotate(request: OrganizationRequest, key: str) -> HttpResponse:
    """Ask how long the old secret works; the answer to the POST shows the new one once."""
    found = get_key(organization=request.organization, public_id=key)
    require_live(found)
    form = RotateForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            made = rotation.rotate_key(
                organization=request.organization,
                public_id=key,
                grace=timedelta(hours=form.cleaned_data["grace_hours"]),
                actor=request.actor,
                now=clock.now(),
            )
        except DomainError as error:
            refuse(form, error)
        else:
            return show_once(request, made)
    return render(request, "customer/key_rotate.html", {"form": form, "key": found})


@page(side="customer", role=Role.MEMBER)
@require_POST
def end_grace(request: OrganizationRequest, key: str) -> HttpResponse:
    """Refuse the old secret from now on."""
    rotation.end_grace(organization=request.organization, public_id=key, actor=request.actor, now=clock.now())
    messages.success(request, "The old secret has ended; every gateway refuses it within a second.")
    return redirect("customer:key", key=key)


urlpatterns = [
    path("keys/<str:key>/rotate/", rotate, name="key-rotate"),
    path("keys/<str:key>/end-grace/", end_grace, name="key-end-grace"),
]
