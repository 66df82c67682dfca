"""Pages whose form ends on Stripe's hosted pages: the browser must be allowed to follow the redirect there."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from csp.decorators import csp_update
from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

from portal.integrations.stripe import STRIPE_HOST

P = ParamSpec("P")
Guarded = Callable[Concatenate[HttpRequest, P], HttpResponseBase]

_HOSTED = ("https://checkout.stripe.com", "https://connect.stripe.com")


def may_lead_to_stripe(view: Guarded[P]) -> Guarded[P]:
    """Let the page's forms end at Stripe (the stand-in's own address where that is in use)."""

    @wraps(view)
    def widened(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        allowed = _HOSTED if settings.STRIPE_API_BASE == STRIPE_HOST else (settings.STRIPE_API_BASE,)
        return csp_update({"form-action": list(allowed)})(view)(request, *args, **kwargs)

    return widened
