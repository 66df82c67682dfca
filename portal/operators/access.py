"""The guard of the operator's console."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import render
from django.utils.cache import add_never_cache_headers

from portal.accounts.models import User
from portal.audit.services import Actor
from portal.core import audience
from portal.core.client_address import client_address

P = ParamSpec("P")


class OperatorRequest(HttpRequest):
    """A request of an operator."""

    user: User
    actor: Actor
    side: str


OperatorView = Callable[Concatenate[OperatorRequest, P], HttpResponseBase]
AnyView = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def operator_page(view: OperatorView[P]) -> AnyView[P]:
    """Guard a page of the operator's console: anonymous visitors sign in, others are refused."""

    @audience.declare(audience.OPERATOR)
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        operator = cast("OperatorRequest", request)
        if not operator.user.is_operator:
            return render(request, "403.html", {"needed": "Operator", "held": "none"}, status=403)
        operator.actor = Actor(public_id=operator.user.public_id, address=_address(request))
        operator.side = "operator"
        response = view(operator, *args, **kwargs)
        if not response.has_header("cache-control"):
            add_never_cache_headers(response)
        return response

    return guarded


def _address(request: HttpRequest) -> str | None:
    return client_address(
        peer=request.META.get("REMOTE_ADDR", ""),
        forwarded_for=request.headers.get("x-forwarded-for", ""),
        trusted=settings.TRUSTED_PROXIES,
    )
