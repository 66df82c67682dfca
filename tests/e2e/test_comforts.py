"""What scripts add: copying, reading a chart with the arrow keys, closing menus; and nothing the policy refuses."""

import pytest
from playwright.sync_api import expect

from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]


def test_a_snippet_is_copied(lived_in: World, visit):
    window = visit(lived_in.customer.owner)
    window.context.grant_permissions(["clipboard-read", "clipboard-write"])
    window.open("/customer/")

    window.page.get_by_role("button", name="Copy").click()

    expect(window.page.get_by_role("button", name="Copied")).to_be_visible()
    assert "/v1/chat/completions" in window.page.evaluate("navigator.clipboard.readText()")
    assert window.complaints == []


def test_a_chart_is_read_with_the_arrow_keys(lived_in: World, visit):
    window = visit(lived_in.customer.owner)
    window.open("/customer/")
    plot = window.page.get_by_role("img", name="Spend by day and model")

    plot.focus()
    for _ in range(5):
        window.page.keyboard.press("ArrowRight")

    told = window.page.locator(".tip").inner_text()
    assert "acme/chat-8b $" in told
    assert window.page.locator("#live").inner_text() == told
    assert window.complaints == []


def test_escape_closes_a_menu_and_returns_the_focus(world: World, visit):
    window = visit(world.customer.owner)
    window.open("/customer/")
    summary = window.page.locator("summary", has_text="Account menu")

    summary.click()
    assert window.page.get_by_role("button", name="Sign out").is_visible()
    window.page.keyboard.press("Escape")

    assert window.page.get_by_role("button", name="Sign out").is_hidden()
    assert summary.evaluate("element => element === document.activeElement")


def test_the_skip_link_leads_to_the_content(world: World, visit):
    window = visit(world.customer.owner)
    window.open("/customer/")

    window.page.keyboard.press("Tab")
    window.page.keyboard.press("Enter")

    assert window.page.evaluate("document.activeElement.id") == "main"
