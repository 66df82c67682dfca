"""An owner without an account: from the front door to the sum, with and without scripts, wide and narrow."""

import pytest
from django.core.cache import caches
from playwright.sync_api import expect

from portal.billing.rules.rating import Terms
from portal.billing.services import prices
from tests.factories.billing import OPENED, SYSTEM_ACTOR
from tests.factories.catalog import CatalogModelFactory
from tests.fakes.model_configs import LLAMA_3_1_8B, LLAMA_3_1_70B
from tests.world import World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

TERMS = Terms(prompt_nano_per_mtok=100_000_000, cached_nano_per_mtok=50_000_000, completion_nano_per_mtok=400_000_000)


@pytest.fixture
def catalogue(world: World) -> None:
    caches["process"].clear()
    for name, config in (("Chat 8B", LLAMA_3_1_8B), ("Chat 70B", LLAMA_3_1_70B)):
        model = CatalogModelFactory(name=name, config=config)
        prices.set_price(model=model, terms=TERMS, actor=SYSTEM_ACTOR, now=OPENED)


@pytest.mark.parametrize(("scripts", "width"), [(True, 1360), (False, 1360), (True, 390)])
def test_from_the_front_door_to_the_sum(catalogue, visit, scripts: bool, width: int):
    window = visit(scripts=scripts, width=width)
    page = window.page
    page.goto("/")
    page.get_by_role("link", name="What would my GPUs earn?").click()
    page.get_by_label("Your machine").fill("3 × 4090, 0.30/kWh")  # noqa: RUF001  what people type
    page.get_by_role("button", name="Show").click()

    main = page.get_by_role("main")
    expect(main).to_contain_text("on 3 x RTX 4090, busy 30% of the time")
    main.get_by_text("The sum", exact=True).click()
    expect(main.get_by_role("row", name="You earn 80% of it, rounded down")).to_contain_text("$0.00028")
    expect(main.get_by_role("row", name="Chat 70B")).to_contain_text("What would fit: spread over 8 x RTX 4090")
    assert window.sideways_scroll() <= 0 or not scripts
    if scripts:
        assert window.accessibility() == []


def test_an_assumption_is_changed_without_scripts(catalogue, visit):
    page = visit(scripts=False).page
    page.goto("/plan/?machine=4090")
    page.get_by_text("Assumptions", exact=True).click()
    page.get_by_label("Busy, percent of the time").fill("60")
    page.get_by_role("button", name="Show").click()

    expect(page.get_by_role("main")).to_contain_text("on 1 x RTX 4090, busy 60% of the time")
