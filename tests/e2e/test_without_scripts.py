"""Sign-up, keys, theme and switching work as plain forms, with scripts switched off."""

import re

import pytest
from playwright.sync_api import expect

from portal.accounts.models import ApiKey, Membership, Organization
from tests.factories.accounts import MembershipFactory
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_newcomer_gets_a_key_and_revokes_it(world: World, visit):
    page = visit(scripts=False).page
    page.goto("/")
    page.get_by_role("main").get_by_role("link", name="Create an account").click()
    page.get_by_label("Your name").fill("Bo Baker")
    page.get_by_label("Email").fill("bo@example.com")
    page.get_by_label("Password").fill("a long enough secret")
    page.get_by_role("button", name="Create account").click()
    page.get_by_label("Name").fill("Bo Ltd")
    page.get_by_label("Country").select_option("DE")
    page.get_by_role("button", name="Create organization").click()
    page.get_by_role("main").get_by_role("link", name="Create key").click()
    page.get_by_label("Name").fill("first")
    page.get_by_role("button", name="Create key").click()

    text = re.search(r"sk-pool-k[0-9a-z]+-[0-9a-z]+-[0-9a-f]+", page.get_by_role("main").inner_text())
    assert text is not None
    organization = Organization.objects.get(name="Bo Ltd")
    assert ApiKey.objects.get().organization == organization

    page.get_by_role("link", name="I have copied it").click()
    page.get_by_role("link", name="Revoke first").click()
    page.get_by_role("button", name="Revoke first").click()
    expect(page.get_by_role("main")).to_contain_text("every gateway refuses it within a second")
    assert ApiKey.objects.get().revoked_at is not None


def test_a_mistake_is_shown_at_its_field(world: World, visit):
    page = visit(world.customer.member, scripts=False).page
    page.goto("/customer/keys/new/")
    page.get_by_label("Budget (optional)").fill("ten")
    page.get_by_role("button", name="Create key").click()

    field = page.get_by_label("Budget (optional)")
    described = str(field.get_attribute("aria-describedby")).split()
    told = " ".join(page.locator(f"#{name}").inner_text() for name in described)
    assert field.get_attribute("aria-invalid") == "true"
    assert "Write an amount such as 25 or 12.50." in told
    assert "Requests that could go beyond it are refused." in told


def test_the_theme_and_the_organization_are_chosen_in_menus(world: World, visit):
    MembershipFactory(organization=world.both.organization, user=world.customer.owner)
    page = visit(world.customer.owner, scripts=False).page
    page.goto("/customer/")

    page.locator("summary", has_text="Account menu").click()
    page.get_by_role("button", name="Dark").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"

    page.locator("summary", has_text="Switch organization").click()
    page.get_by_role("button", name="Both Ltd").click()
    expect(page.get_by_role("main")).to_contain_text("Both Ltd as a customer")
    assert Membership.objects.filter(user=world.customer.owner).count() == 2


def test_charts_and_numbers_are_there(lived_in: World, visit):
    page = visit(lived_in.customer.owner, scripts=False).page
    page.goto("/customer/")

    assert page.locator("svg.plot-svg rect.series-1").count() >= 20
    page.get_by_text("Show data as table").click()
    expect(page.get_by_role("region", name="Spend by day and model: data")).to_contain_text("acme/chat-8b")
    assert page.locator("[data-copy]").first.is_hidden()
