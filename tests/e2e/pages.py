"""Every page of the portal, from its URL table: whose eyes it is for, and where it is."""

from collections.abc import Callable
from dataclasses import dataclass

from django.urls import reverse

from portal.accounts.models import ApiKey, Project, User
from portal.metering.models import UsageRecord
from portal.nodes.models import Node
from tests.integration.web.route_objects import OBJECTS
from tests.integration.web.route_table import Route, all_routes
from tests.world import Team, World

# Swagger UI draws its own page.
_NOT_OURS = {"api-docs"}
AUDIENCES = ("public", "person", "customer", "provider", "any", "operator")


def _node(name: str) -> Callable[[World], dict[str, object]]:
    return lambda world: {"node_id": Node.objects.get(provider=world.provider, name=name).public_id}


def _key(_world: World) -> dict[str, object]:
    return {"key": ApiKey.objects.get(name="staging backend").public_id}


def _request(world: World) -> dict[str, object]:
    record = UsageRecord.objects.filter(organization_id=world.customer.organization.pk).order_by("-opened_on").first()
    assert record is not None
    return {"request_id": record.request_id}


# Pages that say more of what a month of life left than of an object made for them.
_LIVED_IN: dict[str, Callable[[World], dict[str, object]]] = {
    "customer:key": _key,
    "customer:key-change": _key,
    "customer:key-rotate": _key,
    "customer:private-node": _node("rack1-b"),
    "customer:project": lambda _world: {"project": Project.objects.get(name="support chat").public_id},
    "customer:request": _request,
    "operators:node": _node("rack1-a"),
    "operators:node-checks": _node("rack1-a"),
    "operators:node-private": _node("rack1-b"),
    "provider:node": _node("rack1-a"),
    "provider:node-checks": _node("rack1-a"),
    "provider:node-private": _node("rack1-b"),
    "provider:request": _request,
}


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
    return PageOf(name=route.name, url=reverse(route.name, kwargs=_arguments(world, route, team)), user=user)


def _arguments(world: World, route: Route, team: Team) -> dict[str, object]:
    if route.name in _LIVED_IN:
        return _LIVED_IN[route.name](world)
    return OBJECTS[route.name](world, team) if route.arguments else {}
