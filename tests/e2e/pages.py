"""Every page of the portal, from its URL table: whose eyes it is for, and where it is."""

from dataclasses import dataclass

from django.urls import reverse

from portal.accounts.models import User
from tests.integration.web.route_objects import OBJECTS
from tests.integration.web.route_table import Route, all_routes
from tests.world import World

# Swagger UI draws its own page.
_NOT_OURS = {"api-docs"}
AUDIENCES = ("public", "person", "customer", "provider", "any", "operator")


@dataclass(frozen=True, slots=True)
class PageOf:
    """One page and who looks at it."""

    name: str
    url: str
    user: User | None


def pages_for(world: World, audience: str) -> list[PageOf]:
    """Return the pages of one audience that answer a GET; those with arguments show an object made for them."""
    found = [_page(world, route) for route in all_routes() if _is_of(route, audience)]
    return [page for page in found if _is_whole_page(world, page)]


def _is_whole_page(world: World, page: PageOf) -> bool:
    response = world.client(page.user).get(page.url)
    if response.streaming:
        return False
    return response.status_code == 200 and b"<!doctype html>" in response.content.lower()


def _is_of(route: Route, audience: str) -> bool:
    declared = route.audience
    if declared is None or not route.name or route.name in _NOT_OURS:
        return False
    if route.path.startswith("operator/tables/") or (route.arguments and route.name not in OBJECTS):
        return False
    return (declared.side if declared.kind == "organization" else declared.kind) == audience


def _page(world: World, route: Route) -> PageOf:
    declared = route.audience
    team = world.supplier if declared.side == "provider" else world.customer
    people = {"public": None, "person": world.customer.owner, "operator": world.operator}
    user = people.get(declared.kind, team.owner)
    arguments = OBJECTS[route.name](world, team) if route.arguments else {}
    return PageOf(name=route.name, url=reverse(route.name, kwargs=arguments), user=user)
