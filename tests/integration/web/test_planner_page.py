"""The public page of what a machine would earn: no account, no JavaScript, bounded, with the sum written out."""

import re

import pytest
from django.core.cache import caches
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.billing.rules.rating import Terms
from portal.billing.services import prices
from portal.catalog.models import CatalogModel
from portal.nodes.models import CheckResult, CheckRound, Node
from tests.factories.billing import OPENED, SYSTEM_ACTOR
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory, GpuFactory, NodeFactory
from tests.fakes.model_configs import BGE_BASE, LLAMA_3_1_8B, LLAMA_3_1_70B, QWEN3_0_6B
from tests.world import World

EMBEDDING = {
    "task": "embedding", "embedding_dimensions": 768, "context_tokens": 512, "max_output_tokens": 512,
    "default_output_tokens": 512, "message_overhead_bytes": None,
}  # fmt: skip
TERMS = Terms(prompt_nano_per_mtok=100_000_000, cached_nano_per_mtok=50_000_000, completion_nano_per_mtok=400_000_000)


@pytest.fixture(autouse=True)
def fresh_cache():
    caches["process"].clear()
    yield
    caches["process"].clear()


def priced(**fields) -> CatalogModel:
    model = CatalogModelFactory(**fields)
    prices.set_price(model=model, terms=TERMS, actor=SYSTEM_ACTOR, now=OPENED)
    return model


@pytest.fixture
def catalogue(world: World) -> None:
    priced(public_id="acme/chat-8b", name="Chat 8B", config=LLAMA_3_1_8B)
    priced(public_id="acme/chat-70b", name="Chat 70B", config=LLAMA_3_1_70B)
    priced(public_id="acme/tiny", name="Tiny", config=QWEN3_0_6B)
    priced(public_id="acme/embed", name="Embed", config=BGE_BASE, **EMBEDDING)
    priced(public_id="acme/unknown", name="Unknown", config=None)


def text_of(page) -> str:
    """What a reader reads, without tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


def test_three_4090_with_the_sum_written_out(world: World, catalogue):
    page = world.client(None).get("/plan/", {"machine": "3 x 4090, 0.30/kWh"})

    text = text_of(page)
    assert page.status_code == 200
    assert "on 3 x RTX 4090, busy 30% of the time" in text
    assert "Tiny on 1 x RTX 4090, Chat 8B on 1 x RTX 4090" in text
    assert "Chat 8B fits on 1 of 3 GPUs" in text
    assert "A customer pays for one, at today's price $0.00035" in text
    assert "You earn 80% of it, rounded down $0.00028" in text
    assert "Electricity: 166 W on average \N{MULTIPLICATION SIGN} $0.30 a kWh \N{MINUS SIGN} $0.04995" in text
    assert "estimated from the GPU's figures" in text


def test_the_sum_adds_up(world: World, catalogue):
    page = world.client(None).get("/plan/", {"machine": "3 x 4090, 0.30/kWh"})

    row = next(row for row in page.context["paying"] if row["offer"].public_id == "acme/chat-8b")
    found = row["sum"]
    assert found.request_nano == (1500 * 100_000_000 + 500 * 400_000_000) // 1_000_000
    assert found.earned_request_nano == found.request_nano * 8 // 10
    assert found.earned_nano == found.requests * found.earned_request_nano
    assert found.milliwatts == 450 * (1000 * 30 + 100 * 70) // 100
    assert found.electricity_nano == found.milliwatts * 300_000_000 // 1_000_000
    together = page.context["together"]
    assert together.net_nano == together.earned_nano - together.electricity_nano
    assert [offer.public_id for offer, _ in together.rows] == ["acme/tiny", "acme/chat-8b"]


def test_of_two_kinds_of_cards_each_gets_its_own_model(world: World, catalogue):
    page = world.client(None).get("/plan/", {"machine": "3090, 5090"})

    rows = page.context["together"].rows
    assert {offer.public_id: estimate.plan.gpus[0].name for offer, estimate in rows} == {
        "acme/tiny": "RTX 5090",
        "acme/chat-8b": "RTX 3090",
    }


def test_what_does_not_fit_says_why_and_what_would(world: World, catalogue):
    text = text_of(world.client(None).get("/plan/", {"machine": "1 3090"}))

    assert "Unknown Its memory is not known: the operator has not stored its config.json." in text
    assert "Embed It fits; what it would earn cannot be estimated for such requests." in text
    assert "What would fit: spread over 8 x RTX 3090, 7 more than there is" in text
    assert "No price of electricity was given. $0.30 a kilowatt hour is assumed." in text


def test_assumptions_are_the_visitors_to_change(world: World, catalogue):
    usual = world.client(None).get("/plan/", {"machine": "4090"})
    busier = world.client(None).get("/plan/", {"machine": "4090", "utilization_percent": "60"})

    first, second = (page.context["together"].earned_nano for page in (usual, busier))
    assert first * 2 - first // 100 < second <= first * 2 + first // 100
    assert 'name="utilization_percent" value="60"' in busier.text


@pytest.mark.parametrize(
    ("machine", "words"),
    [
        ("2 x Voodoo 5", "Voodoo 5. Write the name as the maker does"),
        ("65 x 4090", "at most 64 GPUs. Name the GPUs of one machine."),
        ("0 x 4090", "the number of GPUs is 0."),
        ("x" * 121, "at most 120 characters"),
        ("", "This field is required."),
        ("<script>alert(1)</script>", "&lt;script&gt;"),
    ],
)
def test_what_cannot_be_read_is_said_beside_the_field(world: World, catalogue, machine: str, words: str):
    page = world.client(None).get("/plan/", {"machine": machine})

    assert page.status_code == 200
    assert words in page.text
    assert "<script>alert" not in page.text


@pytest.mark.parametrize(
    "change", [{"prompt_tokens": "0"}, {"concurrency": "9999"}, {"other_watts": "-1"}, {"utilization_percent": "x"}]
)
def test_assumptions_out_of_range_are_refused(world: World, catalogue, change: dict[str, str]):
    page = world.client(None).get("/plan/", {"machine": "4090", **change})

    assert page.status_code == 200
    assert "together" not in page.context
    assert "errorlist" in page.text


def test_a_second_visitor_costs_no_look_at_the_catalogue(world: World, catalogue):
    browser = world.client(None)
    browser.get("/plan/", {"machine": "4090"})

    with CaptureQueriesContext(connection) as queries:
        browser.get("/plan/", {"machine": "2 x 3090, 0.25/kWh"})

    assert [query["sql"] for query in queries if "catalog_" in query["sql"] or "billing_" in query["sql"]] == []


def test_measured_nodes_stand_before_the_roofline(world: World, catalogue):
    node = NodeFactory()
    GpuFactory(node=node, name="NVIDIA GeForce RTX 4090")
    model = CatalogModel.objects.get(public_id="acme/chat-8b")
    DeploymentFactory(node=node, model=model)
    for check, figure in (("engine.prefill", 4000), ("engine.decode", 500)):
        measured(node, check, model.public_id, figure)

    page = world.client(None).get("/plan/", {"machine": "4090"})

    row = next(row for row in page.context["paying"] if row["offer"].public_id == "acme/chat-8b")
    assert (row["prefill"], row["decode"], row["is_measured"]) == (4000, 500, True)
    assert row["sum"].requests == int(3600 * 0.3 / (1500 / 4000 + 500 / 500))
    assert "measured on nodes with the same GPUs" in page.text


def measured(node: Node, check: str, model: str, figure: int) -> None:
    """A result as the portal stores one."""
    round_ = CheckRound.objects.filter(node=node).first() or CheckRound.objects.create(
        node=node, reason="join", state="done", asked_by="pool", asked_at=OPENED
    )
    CheckResult.objects.create(
        round=round_, node=node, check_id=check, version=1, subject=model, status="ok", verdict="pass",
        is_enforced=False, policy_revision=0, at=OPENED, figure_milli=figure * 1000,
    )  # fmt: skip


def test_the_front_door_leads_here(world: World):
    assert 'href="/plan/"' in world.client(None).get("/").text
