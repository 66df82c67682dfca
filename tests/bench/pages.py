"""How long the portal's pages take over what a round of the books has left behind."""

import time
from collections.abc import Iterator
from datetime import datetime
from statistics import median
from typing import TYPE_CHECKING, Final

import time_machine
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.accounts.models import Organization, User
from tests.factories.accounts import MembershipFactory
from tests.integration.web.route_table import Route, all_routes

if TYPE_CHECKING:
    from tests.bench.books_market import Fair

P95_MS: Final = 200.0
MAX_QUERIES: Final = 30
_TIMES: Final = 5
_OK: Final = 200


def measure(fair: "Fair", *, at: datetime) -> Iterator[dict[str, object]]:
    """Ask for each page without arguments some times at that moment; yield a line a page, and the two figures."""
    asked: list[float] = []
    most = 0
    people = {
        "operator": fair.operator,
        "customer": _owner(fair.markets[0].customer),
        "provider": _owner(fair.nodes[0].provider.organization),
    }
    with time_machine.travel(at, tick=True):
        for route in all_routes():
            who = _reader(route)
            if who and (found := _ask(people[who], reverse(route.name))):
                took, queries = found
                asked += took
                most = max(most, queries)
                yield {"page": route.name, "ms": round(median(took), 1), "queries": queries}
    asked.sort()
    yield {"figure": "pages_p95_ms", "ours": round(asked[int(len(asked) * 0.95)], 1), "limit": P95_MS}
    yield {"figure": "page_queries", "ours": most, "limit": MAX_QUERIES}


def _reader(route: Route) -> str:
    """Who looks at the page; empty where it is none, or needs an object to show."""
    if route.audience is None or route.arguments or not route.name or route.path.startswith("operator/tables/"):
        return ""
    if route.audience.kind == "organization":
        return "provider" if route.audience.side == "provider" else "customer"
    return "operator" if route.audience.kind == "operator" else ""


def _owner(organization: Organization) -> User:
    membership = MembershipFactory(organization=organization, role="owner")
    user: User = membership.user
    return user


def _ask(user: User, url: str) -> tuple[list[float], int] | None:
    """Return how long each request took (ms) and how many queries one asked; None where it is no page."""
    browser = Client(SERVER_NAME="localhost")
    browser.force_login(user)
    first = browser.get(url)
    if first.status_code != _OK or not first["content-type"].startswith("text/html"):
        return None
    took = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        browser.get(url)
        took.append((time.perf_counter() - began) * 1000)
    with CaptureQueriesContext(connection) as queries:
        browser.get(url)
    return took, len(queries)
