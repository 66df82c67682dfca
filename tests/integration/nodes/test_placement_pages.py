"""Placement's pages: the provider's word on its node, the operator's view of what would be placed and why."""

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from portal.audit.models import AuditEvent
from portal.core import clock
from portal.metering.services import demand
from portal.metering.services.demand import Away
from portal.nodes.models import (
    ModelPlacement,
    NodePlacement,
    NodeState,
    PlacementMode,
    PlacementPolicy,
    PlacementRound,
    PlacementSwitch,
)
from portal.nodes.services import placement
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import DeploymentFactory, GpuFactory, NodeFactory
from tests.integration.nodes.test_placement import LLAMA
from tests.world import World

WHY = "it is asked for and no node serves it"


@pytest.fixture
def node(world: World):
    row = NodeFactory(
        provider=world.provider, name="rack4-7", state=NodeState.READY, state_code="no_deployment",
        last_heartbeat_at=clock.now(),
    )  # fmt: skip
    GpuFactory(node=row)
    return row


@pytest.fixture
def model(world: World):
    row = CatalogModelFactory(plain=True, public_id="acme/chat-8b", config=LLAMA, context_tokens=8192)
    ModelPlacement.objects.create(model=row, short_since=clock.now() - timedelta(hours=1))
    demand.record_turned_away(away=[Away(clock.now(), row.pk, "none", 12)])
    return row


def text(response) -> str:
    assert response.status_code == 200, response.status_code
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.text))


def test_a_provider_lets_the_pool_choose_and_chooses_again(world, node):
    browser = world.client(world.supplier.owner)
    url = reverse("provider:node-placement", args=[node.public_id])
    assert "The provider chooses what runs here." in text(browser.get(reverse("provider:node", args=[node.public_id])))

    browser.post(url)
    assert NodePlacement.objects.get().mode == PlacementMode.AUTOMATIC
    browser.post(url)
    assert NodePlacement.objects.get().mode == PlacementMode.CHOSEN

    events = AuditEvent.objects.filter(event="node.placement_set").order_by("id")
    assert [event.detail["mode"] for event in events] == ["automatic", "chosen"]


def test_a_resting_node_says_why_and_until_when(world, node):
    node.state, node.state_code = NodeState.MAINTENANCE, "owner_quiet_hours"
    node.load = {"owner": {"code": "owner_quiet_hours", "until": "2026-12-01T05:30:00+00:00"}}
    node.save()

    shown = text(world.client(world.supplier.owner).get(reverse("provider:node", args=[node.public_id])))

    assert "Why this node gets no work: The owner&#x27;s quiet hours." in shown
    assert "It comes back at 2026-12-01 05:30 UTC." in shown


def test_strangers_set_nothing(world, node):
    for person in (world.stranger, world.customer.owner):
        world.client(person).post(reverse("provider:node-placement", args=[node.public_id]))

    assert not NodePlacement.objects.exists()


def test_a_node_says_what_the_newest_round_found_of_each_model(world, node, model):
    CatalogModelFactory(plain=True, public_id="acme/huge", config={**LLAMA, "num_hidden_layers": 400})
    NodePlacement.objects.create(node=node, mode=PlacementMode.AUTOMATIC)
    placement.run_round(demand={}, now=clock.now())

    for browser, route in ((world.client(world.supplier.owner), "provider:node"),
                           (world.client(world.operator), "operators:node")):  # fmt: skip
        shown = text(browser.get(reverse(route, args=[node.public_id])))
        assert "The pool chooses what runs here" in shown
        assert "acme/chat-8b not here The model has enough nodes" in shown
        assert "this is what it would do, and nothing of it is done" in shown
        assert "acme/huge not here The model does not fit these GPUs : 1 x NVIDIA GeForce RTX 4090: " in shown.replace(
            "GPUs:", "GPUs :"
        )


def test_the_operator_sees_what_would_be_placed_and_why_before_it_is(world, node, model):
    NodePlacement.objects.create(node=node, mode=PlacementMode.AUTOMATIC)
    NodeFactory(name="chosen", last_heartbeat_at=clock.now())
    browser = world.client(world.operator)

    shown = text(browser.get(reverse("operators:placement")))

    assert "Preview: rounds decide and explain, and change nothing." in shown
    assert f"start acme/chat-8b {node.public_id} The pool places the model here: {WHY}" in shown
    assert "1 node: The provider chooses on this node." in shown
    assert not node.deployments.exists()


def test_the_page_of_many_nodes_costs_as_many_queries_as_that_of_one(world, node, model):
    browser = world.client(world.operator)
    url = reverse("operators:placement")
    NodePlacement.objects.create(node=node, mode=PlacementMode.AUTOMATIC)
    browser.get(url)
    with CaptureQueriesContext(connection) as of_one:
        browser.get(url)

    for number in range(12):
        row = NodeFactory(state=NodeState.READY, state_code="no_deployment", last_heartbeat_at=clock.now())
        GpuFactory(node=row)
        NodePlacement.objects.create(node=row, mode=PlacementMode.AUTOMATIC)
        other = CatalogModelFactory(plain=True, public_id=f"acme/other-{number}", config=LLAMA, context_tokens=8192)
        DeploymentFactory(node=row, model=other)
        ModelPlacement.objects.create(model=other, short_since=clock.now() - timedelta(hours=1), minimum_nodes=2)
        PlacementRound.objects.create(at=clock.now(), switch="preview", code="placement_done", moves=[])
    with CaptureQueriesContext(connection) as of_many:
        shown = text(browser.get(url))

    assert "acme/other-11" in shown
    assert len(of_many) == len(of_one) <= 30


def test_the_operator_switches_it_on_and_the_next_round_acts(world, node, model):
    NodePlacement.objects.create(node=node, mode=PlacementMode.AUTOMATIC)
    browser = world.client(world.operator)
    values = {"switch": "on", "grow_at_percent": 70, "shrink_at_percent": 20, "short_for_s": 60, "idle_for_s": 600,
              "stay_s": 1200, "moves_a_round": 5}  # fmt: skip

    assert browser.post(reverse("operators:placement"), values).status_code == 302
    placement.run_round(demand={}, now=clock.now())

    policy = PlacementPolicy.objects.get()
    assert (policy.switch, policy.grow_at_percent, policy.moves_a_round) == (PlacementSwitch.ON, 70, 5)
    assert AuditEvent.objects.get(event="placement.policy_set").detail["switch"] == "on"


def test_loads_that_cross_are_refused_and_change_nothing(world):
    values = {"switch": "on", "grow_at_percent": 50, "shrink_at_percent": 50, "short_for_s": 60, "idle_for_s": 600,
              "stay_s": 1200, "moves_a_round": 5}  # fmt: skip

    shown = text(world.client(world.operator).post(reverse("operators:placement"), values))

    assert "a model shrinks below the load at which it grows" in shown
    assert not PlacementPolicy.objects.exists()


def test_the_operator_sets_how_many_nodes_a_model_has(world, model):
    browser = world.client(world.operator)
    url = reverse("operators:placement-target", args=[model.pk])

    assert browser.post(url, {"minimum": 2, "maximum": 5}).status_code == 302
    assert " 2 to 5 " in text(browser.get(reverse("operators:placement")))
    browser.post(url, {"minimum": 3, "maximum": 2})

    row = ModelPlacement.objects.get(model=model)
    assert (row.minimum_nodes, row.maximum_nodes) == (2, 5)


def test_a_fleet_that_is_silent_is_told(world, model):
    for _ in range(4):
        NodeFactory(last_heartbeat_at=clock.now() - timedelta(seconds=40))
    PlacementRound.objects.create(at=clock.now(), switch="on", code="placement_held")

    assert "Placement holds still." in text(world.client(world.operator).get(reverse("operators:placement")))
