"""The page of what holds over all keys, and the operator's ceilings."""

import pytest

from portal.accounts.models import Organization
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services.organization_terms import ceilings_of, terms_of
from tests.world import World

FORM = {
    "budget_cap": "900",
    "budget_period": "month",
    "requests_per_minute": "1000",
    "tokens_per_minute": "",
    "parallel_requests": "64",
}


def organization(world: World) -> Organization:
    return Organization.objects.get(pk=world.customer.organization.pk)


def test_an_admin_sets_limits_and_budget(world: World):
    browser = world.client(world.customer.admin)

    page = browser.post("/accounts/organization/limits/", FORM, follow=True).content.decode()

    row = terms_of(organization(world))
    assert (row.limits, row.budget) == (LimitTerms(1_000, None, 64), Budget(900_000_000_000, "month"))
    assert "of $900.00 a month" in page


def test_a_member_looks_and_changes_nothing(world: World):
    browser = world.client(world.customer.member)

    page = browser.get("/accounts/organization/limits/").content.decode()
    assert "No limits beyond the pool" in page
    assert "Save limits" not in page
    for url in ("limits", "time-zone", "alerts"):
        assert browser.post(f"/accounts/organization/{url}/", FORM | {"time_zone": "Asia/Tokyo"}).status_code == 403

    row = organization(world)
    assert (row.requests_per_minute, row.time_zone, row.alerts_new_network) == (None, "UTC", True)


def test_a_mistake_is_named_at_its_field(world: World):
    response = world.client(world.customer.admin).post("/accounts/organization/limits/", FORM | {"budget_cap": "lots"})

    assert "Write an amount" in str(response.context["form"].errors["budget_cap"])
    assert organization(world).budget_cap_nano is None


@pytest.mark.parametrize(("zone", "status", "kept"), [("Asia/Tokyo", 302, "Asia/Tokyo"), ("Moon/Base", 400, "UTC")])
def test_the_time_zone(world: World, zone: str, status: int, kept: str):
    response = world.client(world.customer.admin).post("/accounts/organization/time-zone/", {"time_zone": zone})

    assert response.status_code == status
    assert organization(world).time_zone == kept


def test_messages_to_owners_are_chosen_by_boxes(world: World):
    world.client(world.customer.admin).post("/accounts/organization/alerts/", {"new_country": "on"})

    row = organization(world)
    assert (row.alerts_new_network, row.alerts_new_country, row.alerts_spend_spike) == (False, True, False)


def test_the_operator_sets_ceilings_and_the_customer_reads_them(world: World):
    public_id = world.customer.organization.public_id
    url = f"/operator/customers/{public_id}/ceilings/"
    asked = {"requests_per_minute": "300", "tokens_per_minute": "50000", "parallel_requests": ""}

    done = world.client(world.operator).post(url, asked, follow=True)

    assert 'value="300"' in done.content.decode()
    assert ceilings_of(organization(world)) == LimitTerms(300, 50_000, None)
    page = world.client(world.customer.reader).get("/accounts/organization/limits/").content.decode()
    assert "at most 300 requests a minute, 50,000 tokens a minute" in page


def test_a_wrong_ceiling_is_named_at_its_field(world: World):
    public_id = world.customer.organization.public_id

    response = world.client(world.operator).post(
        f"/operator/customers/{public_id}/ceilings/", {"requests_per_minute": "0"}
    )

    assert "greater than or equal to 1" in str(response.context["ceilings"].errors["requests_per_minute"])
    assert ceilings_of(organization(world)) == LimitTerms()


def test_suspending_is_not_disturbed_by_the_ceilings(world: World):
    public_id = world.customer.organization.public_id

    world.client(world.operator).post(f"/operator/customers/{public_id}/", {"reason": "fraud"})

    assert organization(world).state == "suspended"
