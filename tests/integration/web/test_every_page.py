"""What holds for every page: the content security policy, no cache, and a bounded number of queries."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from tests.integration.web.route_objects import OBJECTS
from tests.integration.web.route_table import Route, all_routes
from tests.world import World

MAX_QUERIES = 30
POLICY = {
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' data:",
    "font-src 'self'",
    "connect-src 'self'",
    "frame-ancestors 'none'",
    "base-uri 'none'",
}
# A form that ends at Stripe's hosted page may do so; browsers hold redirects after a POST to the same rule.
TO_STRIPE = {
    "customer:credit",
    "customer:auto-topup",
    "customer:bill",
    "customer:credit-alert",
    "provider:payouts",
    "provider:payouts-dashboard",
    "provider:payouts-onboard",
}
KINDS = {"public", "person", "organization", "operator"}
PAGES = [route for route in all_routes() if route.name and route.audience and route.audience.kind in KINDS]
OURS = [route for route in PAGES if not route.path.startswith("operator/tables/")]


@pytest.mark.parametrize("route", OURS, ids=str)
def test_a_page_is_strict_private_and_cheap(world: World, route: Route):
    team = world.supplier if route.audience.side == "provider" else world.customer
    people = {"public": None, "person": team.owner, "operator": world.operator}
    browser = world.client(people.get(route.audience.kind, team.owner))
    url = reverse(route.name, kwargs=OBJECTS[route.name](world, team) if route.arguments else {})

    with CaptureQueriesContext(connection) as queries:
        response = browser.get(url)

    policy = set(response["content-security-policy"].split("; "))
    targets = next(rule for rule in policy if rule.startswith("form-action"))
    assert policy - {targets} == POLICY
    assert targets == "form-action 'self'" or route.name in TO_STRIPE
    assert response["x-content-type-options"] == "nosniff"
    assert len(queries) <= MAX_QUERIES
    if route.audience.kind in {"organization", "operator"} and response.status_code == 200:
        assert "no-store" in response["cache-control"]
