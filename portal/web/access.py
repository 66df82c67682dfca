"""The guards of the pages: who may open a page, and for which organization they act.

`@page(side=…, role=…)` is for pages of an organization, `@person_page` for anyone signed in, `@public_page` for all.
Each declares its audience, which the route matrix test reads. A POST needs at least the role `member`, or `post_role`.
"""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from django.conf import settings
from django.contrib.auth.views import redirect_to_login
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.utils.cache import patch_cache_control

from portal.accounts.models import Membership, Organization, Role, User
from portal.accounts.rules import roles
from portal.accounts.selectors import members
from portal.audit.services import Actor
from portal.core import audience
from portal.core.client_address import client_address
from portal.providers.models import Provider
from portal.providers.selectors.providers import provider_of

P = ParamSpec("P")

SESSION_ORGANIZATION = "organization"
SESSION_SIDE = "side"
_SAFE = {"GET", "HEAD", "OPTIONS"}


class PersonRequest(HttpRequest):
    """A request of a signed-in person."""

    user: User
    actor: Actor
    memberships: list[Membership]


class OrganizationRequest(PersonRequest):
    """A request of a person who acts for an organization."""

    organization: Organization
    membership: Membership
    side: str


class ProviderRequest(OrganizationRequest):
    """A request for an organization's supplying side, whose profile exists."""

    provider: Provider


PageView = Callable[Concatenate[OrganizationRequest, P], HttpResponseBase]
ProviderView = Callable[Concatenate[ProviderRequest, P], HttpResponseBase]
PersonView = Callable[Concatenate[PersonRequest, P], HttpResponseBase]
PublicView = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def page(
    *, side: str, role: Role = Role.READ_ONLY, post_role: Role | None = None
) -> Callable[[PageView[P]], PublicView[P]]:
    """Guard a page of an organization; `side` is customer, provider or any (shown in the side last visited)."""
    write_role = post_role or roles.higher(role, Role.MEMBER)
    declared = audience.Audience("organization", side=side, role=role, post_role=write_role)

    def guard(view: PageView[P]) -> PublicView[P]:
        @audience.declare(declared)
        @wraps(view)
        def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            refusal = _enter_organization(request, side, role if request.method in _SAFE else write_role)
            return refusal or _private(view(cast("OrganizationRequest", request), *args, **kwargs))

        return guarded

    return guard


def provider_page(
    *, role: Role = Role.READ_ONLY, post_role: Role | None = None
) -> Callable[[ProviderView[P]], PublicView[P]]:
    """Guard a page that needs a provider profile; without one the visitor is led to it."""

    def guard(view: ProviderView[P]) -> PublicView[P]:
        def with_provider(request: OrganizationRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
            provider = provider_of(organization=request.organization)
            if provider is None:
                return redirect("provider:profile")
            request.provider = provider  # type: ignore[attr-defined]  # from here on it is a ProviderRequest
            return view(cast("ProviderRequest", request), *args, **kwargs)

        return page(side="provider", role=role, post_role=post_role)(wraps(view)(with_provider))

    return guard


def person_page(view: PersonView[P]) -> PublicView[P]:
    """Guard a page that any signed-in person may open."""

    @audience.declare(audience.PERSON)
    @wraps(view)
    def guarded(request: HttpRequest, /, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        if not request.user.is_authenticated:
            return redirect_to_login(request.get_full_path())
        return _private(view(_as_person(request), *args, **kwargs))

    return guarded


def public_page(view: PublicView[P]) -> PublicView[P]:
    """Declare a page that anyone may open."""
    return audience.declare(audience.PUBLIC)(view)


def address_of(request: HttpRequest) -> str | None:
    """Return the client's address; a forwarded one counts only from TRUSTED_PROXIES."""
    return client_address(
        peer=request.META.get("REMOTE_ADDR", ""),
        forwarded_for=request.headers.get("x-forwarded-for", ""),
        trusted=settings.TRUSTED_PROXIES,
    )


def _as_person(request: HttpRequest) -> PersonRequest:
    person = cast("PersonRequest", request)
    person.actor = Actor(public_id=person.user.public_id, address=address_of(request))
    person.memberships = members.memberships_of(user=person.user)
    return person


def _enter_organization(request: HttpRequest, side: str, needed: str) -> HttpResponseBase | None:
    """Put organization, membership and side on the request, or return the answer that refuses it."""
    if not request.user.is_authenticated:
        return redirect_to_login(request.get_full_path())
    person = _as_person(request)
    membership = _active(person)
    if membership is None:
        return redirect("organization:create")
    acting = cast("OrganizationRequest", request)
    acting.membership, acting.organization = membership, membership.organization
    acting.side = _side(request, side, membership.organization)
    if not roles.includes(membership.role, needed):
        return render(
            request, "403.html", {"needed": Role(needed).label, "held": Role(membership.role).label}, status=403
        )
    return None


def _active(person: PersonRequest) -> Membership | None:
    chosen = str(person.session.get(SESSION_ORGANIZATION, ""))
    by_id = {row.organization.public_id: row for row in person.memberships}
    return by_id.get(chosen) or next(iter(person.memberships), None)


def _side(request: HttpRequest, side: str, organization: Organization) -> str:
    if side == "any":
        fallback = "customer" if organization.is_customer else "provider"
        return str(request.session.get(SESSION_SIDE, fallback))
    if request.session.get(SESSION_SIDE) != side:
        request.session[SESSION_SIDE] = side
    return side


def _private(response: HttpResponseBase) -> HttpResponseBase:
    """Keep an organization's page out of shared and history caches."""
    if not response.has_header("cache-control"):
        patch_cache_control(response, private=True, no_store=True)
    return response
