"""Asks for a second factor where money could be led astray; a person without one is led to set one up."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Concatenate, ParamSpec

from allauth.account.authentication import get_authentication_records
from allauth.mfa.utils import is_mfa_enabled
from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.http import urlencode

from portal.core import clock
from portal.payouts.errors import SecondFactorNeeded
from portal.payouts.rules import protection
from portal.web.access import PersonRequest, ProviderRequest

P = ParamSpec("P")
ProviderView = Callable[Concatenate[ProviderRequest, P], HttpResponseBase]


def confirmed_at(request: HttpRequest) -> datetime | None:
    """Return when this session's person last used a second factor; None where they never did."""
    records = get_authentication_records(request, request.user)
    moments = [float(one["at"]) for one in records if one.get("method") == "mfa"]
    return datetime.fromtimestamp(max(moments), UTC) if moments else None


def needs_second_factor(view: ProviderView[P]) -> ProviderView[P]:
    """Guard a page below `@provider_page`: it opens, and takes its form, only shortly after a second factor."""

    @wraps(view)
    def guarded(request: ProviderRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        return lead_to_it(request, back=request.path) or view(request, *args, **kwargs)

    return guarded


def lead_to_it(request: PersonRequest, *, back: str) -> HttpResponseBase | None:
    """Return the way to a second factor and from there to `back`; None where one was just used."""
    try:
        protection.require_recent(confirmed_at(request), now=clock.now())
    except SecondFactorNeeded:
        if not is_mfa_enabled(request.user):
            messages.warning(
                request, "This changes where the money goes. Set up two-factor sign-in first, then come back."
            )
            return redirect("mfa_index")
        messages.info(request, "This changes where the money goes: confirm it with your second factor.")
        return redirect(f"{reverse('mfa_reauthenticate')}?{urlencode({'next': back})}")
    return None
