"""Every route of the URL table against every kind of visitor: its declared audience gets in, nobody else does.

Driven from the URL table, so that a new route cannot be forgotten.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import transaction
from django.urls import reverse

from portal.accounts.models import User
from portal.accounts.rules import roles
from tests.integration.web.fingerprint import fingerprint, names_of_all_models
from tests.integration.web.route_objects import OBJECTS
from tests.integration.web.route_table import Route, all_routes
from tests.world import Team, World

SIGN_IN = "/accounts/login/"
START = "/accounts/organization/new/"
FORBIDDEN, UNKNOWN, NO_METHOD = 403, 404, 405
# Routes of Django's admin take any table's name or row; its own has_permission guards them all alike.
TABLES = [route for route in all_routes() if route.path.startswith("operator/tables/")]
ROUTES = [route for route in all_routes() if route not in TABLES]
METHODS = ["get", "post"]

pytestmark = [pytest.mark.timeout(600), pytest.mark.long]


def test_every_route_declares_its_audience():
    silent = [str(route) for route in all_routes() if route.audience is None]

    assert silent == []


def test_every_route_with_arguments_has_an_object():
    missing = [route.name for route in ROUTES if route.arguments and route.name not in OBJECTS]

    assert missing == []


def test_no_object_is_left_without_its_route():
    names = {route.name for route in ROUTES if route.arguments}

    assert set(OBJECTS) - names == set()


def test_the_fingerprint_covers_every_table(world: World):
    tables = {name for name, _, _ in fingerprint()} | {"django_session"}

    assert names_of_all_models() - tables == set()


def test_pages_of_an_organization(world: World, subtests):
    for route, method in each("organization"):
        with subtests.test(f"{method} {route}"), undone():
            team = _team(world, route)
            url = _url(world, team, route)
            needed = route.audience.role if method == "get" else route.audience.post_role
            held = [(team.reader, "read_only"), (team.member, "member"), (team.admin, "admin"), (team.owner, "owner")]
            allowed = [person for person, role in held if roles.includes(role, needed)]

            refused = {None: SIGN_IN, world.operator: START}
            refused |= {person: FORBIDDEN for person, _ in held if person not in allowed}
            _require_refused(world, method, url, refused | ({world.stranger: UNKNOWN} if route.arguments else {}))
            for person in allowed:
                if person != team.reader:
                    assert _let_in(world, person, method, url)
            assert _is_found(world, team.owner, url) if route.arguments else _let_in(world, world.stranger, method, url)


def test_pages_of_the_operator(world: World, subtests):
    others = [world.stranger, world.customer.reader, world.customer.owner, world.supplier.owner]
    for route, method in each("operator"):
        with subtests.test(f"{method} {route}"), undone():
            url = _url(world, world.customer, route)

            _require_refused(world, method, url, {None: SIGN_IN} | dict.fromkeys(others, FORBIDDEN))
            assert _let_in(world, world.operator, method, url)
            assert not route.arguments or _is_found(world, world.operator, url)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "name", ["index", "app_list", "accounts_user_changelist", "jsi18n", "billing_ledgertx_add", "logout"]
)
def test_the_operators_tables(world: World, name: str, method: str):
    arguments = {"app_label": "accounts"} if name == "app_list" else {}
    url = reverse(f"operator_admin:{name}", kwargs=arguments)

    others = [world.stranger, world.customer.owner, world.supplier.owner]
    _require_refused(world, method, url, {None: SIGN_IN} | dict.fromkeys(others, FORBIDDEN))


def test_pages_of_a_person(world: World, subtests):
    for route, method in each("person"):
        with subtests.test(f"{method} {route}"), undone():
            url = _url(world, world.customer, route)

            _require_refused(world, method, url, {None: SIGN_IN})
            assert _let_in(world, world.customer.reader, method, url)
            assert _let_in(world, world.operator, method, url)


def test_pages_for_everyone(world: World, subtests):
    for route, method in each("public"):
        with subtests.test(f"{method} {route}"), undone():
            url = _url(world, world.customer, route)

            for person in [None, world.stranger, world.operator]:
                assert _let_in(world, person, method, url)


def test_routes_of_machines_refuse_everyone_without_proof(world: World, subtests):
    for route, method in each("machine"):
        with subtests.test(f"{method} {route}"), undone():
            url = _url(world, world.customer, route)
            browsers = [world.client(person) for person in [None, world.stranger, world.customer.owner, world.operator]]
            before = fingerprint()

            for browser in browsers:
                response = getattr(browser, method)(url, data={}, content_type="application/json")
                assert response.status_code in {400, 401, 403, 404, NO_METHOD, 415}, response.status_code

            assert fingerprint() == before


def each(kind: str) -> list[tuple[Route, str]]:
    """Return the routes of an audience, with each method."""
    found = [
        (route, method) for route in ROUTES if route.audience and route.audience.kind == kind for method in METHODS
    ]
    assert found
    return found


@contextmanager
def undone() -> Iterator[None]:
    """Leave the world as it was before."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


def _team(world: World, route: Route) -> Team:
    return world.supplier if route.audience.side == "provider" else world.customer


def _url(world: World, team: Team, route: Route) -> str:
    return reverse(route.name, kwargs=OBJECTS[route.name](world, team) if route.arguments else {})


def _require_refused(world: World, method: str, url: str, expected: dict[User | None, str | int]) -> None:
    """Each of the people gets the status, or is sent to the page, that is expected, and nothing has changed."""
    browsers = [(world.client(person), answer) for person, answer in expected.items()]
    before = fingerprint()
    for browser, answer in browsers:
        response = getattr(browser, method)(url)
        if response.status_code != NO_METHOD and isinstance(answer, int):
            assert response.status_code == answer
        elif response.status_code != NO_METHOD:
            assert (response.status_code, response["location"][: len(answer)]) == (302, answer)
    assert fingerprint() == before, f"{method} {url} was refused and still changed something"


def _let_in(world: World, person, method: str, url: str) -> bool:
    """Tell whether the person reaches the view; what they change is undone."""
    with undone():
        response = getattr(world.client(person), method)(url)
    refused = response.status_code in {401, 403} or response.status_code >= 500
    sent_away = response.status_code == 302 and response["location"].startswith((f"{SIGN_IN}?", START))
    return not refused and not sent_away


def _is_found(world: World, person, url: str) -> bool:
    return world.client(person).get(url).status_code in {200, NO_METHOD}
