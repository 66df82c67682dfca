"""What people decide about a node, and what a provider's suspension does to its nodes."""

from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction

from portal.core.errors import InvalidValue
from portal.nodes.locks import NodeUnknown
from portal.nodes.models import Node, NodeEvent, NodeOrigin, NodeState
from portal.nodes.rules.states import NodeMoveRefused
from portal.nodes.selectors.house_costs import cost_at
from portal.nodes.selectors.work import explain_work
from portal.nodes.services import fleet, lifecycle, sessions
from portal.providers.models import ProviderKind
from tests.factories.nodes import DeploymentFactory, NodeEventFactory, NodeFactory, TunnelFactory


@pytest.fixture
def node(db):
    return NodeFactory()


def test_a_suspension_needs_a_reason_and_says_it(node, actor, now):
    with pytest.raises(InvalidValue):
        lifecycle.suspend(node_id=node.public_id, reason="  ", actor=actor, now=now)

    lifecycle.suspend(node_id=node.public_id, reason="Wrong answers", actor=actor, now=now)

    node.refresh_from_db()
    assert (node.state, node.state_code, node.state_cause) == ("suspended", "node_suspended", "operator")
    why = explain_work(node=node)
    assert (why.takes_work, why.code, why.reason) == (False, "node_suspended", "Wrong answers")
    assert NodeEvent.objects.get().detail == {"reason": "Wrong answers"}


def test_a_suspension_is_lifted_to_offline(node, actor, now):
    lifecycle.suspend(node_id=node.public_id, reason="x", actor=actor, now=now)

    lifecycle.lift_suspension(node_id=node.public_id, actor=actor, now=now)

    node.refresh_from_db()
    assert (node.state, node.state_reason) == ("offline", "")


def test_retiring_stops_everything_and_cannot_be_undone(node, actor, now):
    row = DeploymentFactory(node=node, running=3)

    lifecycle.retire(node_id=node.public_id, actor=actor, now=now)

    row.refresh_from_db()
    assert (row.desired, row.running) == ("stopped", 0)
    for decision in (lifecycle.drain, lifecycle.resume):
        with pytest.raises(sessions.NodeRetired):
            decision(node_id=node.public_id, actor=actor, now=now)
    with pytest.raises(NodeMoveRefused):
        lifecycle.lift_suspension(node_id=node.public_id, actor=actor, now=now)
    with pytest.raises(NodeMoveRefused):
        lifecycle.retire(node_id=node.public_id, actor=actor, now=now)


def test_draining_an_offline_node_is_remembered(db, actor, now):
    node = NodeFactory(state=NodeState.OFFLINE)

    lifecycle.drain(node_id=node.public_id, actor=actor, now=now)

    node.refresh_from_db()
    assert (node.state, node.is_drain_wanted) == ("offline", True)


def test_an_unknown_node_is_named_as_such(db, actor, now):
    with pytest.raises(NodeUnknown):
        lifecycle.drain(node_id="node_nobody", actor=actor, now=now)


def test_house_terms_are_for_house_nodes(node, actor, now):
    with pytest.raises(lifecycle.NotAHouseNode):
        lifecycle.set_house_terms(
            node_id=node.public_id, origin=NodeOrigin.RENTED, cost_nano_per_hour=5, actor=actor, now=now
        )

    house = NodeFactory(provider__kind=ProviderKind.HOUSE)
    lifecycle.set_house_terms(
        node_id=house.public_id, origin=NodeOrigin.RENTED, cost_nano_per_hour=1_200_000_000, actor=actor, now=now
    )
    house.refresh_from_db()
    assert (house.origin, cost_at(node=house, at=now)) == ("rented", 1_200_000_000)
    assert cost_at(node=house, at=now - timedelta(seconds=1)) == 0


@pytest.mark.parametrize(("origin", "cost"), [(NodeOrigin.OWNED, -1), (NodeOrigin.PROVIDER, 1)])
def test_house_terms_have_bounds(db, actor, now, origin, cost):
    house = NodeFactory(provider__kind=ProviderKind.HOUSE)

    with pytest.raises(InvalidValue):
        lifecycle.set_house_terms(node_id=house.public_id, origin=origin, cost_nano_per_hour=cost, actor=actor, now=now)


def test_suspending_a_provider_stops_its_nodes_alone_and_lifting_brings_them_back(db, actor, now):
    serving = NodeFactory()
    provider = serving.provider
    retired = NodeFactory(provider=provider, state=NodeState.RETIRED)
    cloned = NodeFactory(provider=provider, state=NodeState.SUSPENDED, state_code="node_cloned")
    stranger = NodeFactory()

    fleet.suspend_provider(provider_id=provider.public_id, reason="Fraud", actor=actor, now=now)

    found = dict(Node.objects.values_list("pk", "state"))
    assert found == {serving.pk: "suspended", retired.pk: "retired", cloned.pk: "suspended", stranger.pk: "serving"}

    fleet.reinstate_provider(provider_id=provider.public_id, actor=actor, now=now)
    found = dict(Node.objects.values_list("pk", "state"))
    assert found == {serving.pk: "offline", retired.pk: "retired", cloned.pk: "suspended", stranger.pk: "serving"}


def test_a_serving_node_without_a_tunnel_is_explained(node):
    assert explain_work(node=node).code == "tunnel_lost"

    TunnelFactory(node=node)

    assert explain_work(node=node).takes_work


def test_events_are_history(node):
    event = NodeEventFactory(node=node)

    for change in (event.delete, lambda: NodeEvent.objects.update(code="other")):
        with pytest.raises(IntegrityError, match="append-only"), transaction.atomic():
            change()

    assert NodeEvent.objects.get().code == "serving"
