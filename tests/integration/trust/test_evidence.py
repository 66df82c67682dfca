"""Evidence against nodes: bounded rows, what it takes from their standing, who sees which of it."""

from datetime import UTC, datetime, timedelta
from uuid import UUID

import pytest

from portal.core import clock
from portal.nodes.models import Node
from portal.trust.models import NodeEvidence
from portal.trust.selectors import evidence as selectors
from portal.trust.selectors import for_gateway
from portal.trust.services import evidence
from portal.trust.services.evidence import Incident
from tests.factories.nodes import NodeFactory
from tests.world import World

pytestmark = pytest.mark.django_db

NOW = datetime(2026, 11, 2, 12, 30, tzinfo=UTC)
REQUEST = UUID("01939d2e-0000-7000-8000-000000000001")


@pytest.fixture
def node() -> Node:
    return NodeFactory()


def _incident(
    node: Node, rule: str = "tunnel_flood", *, at: datetime = NOW, count: int = 1, detail: str = ""
) -> Incident:
    return Incident(
        node_id=node.pk,
        rule=rule,
        count=count,
        first_at=at,
        last_at=at,
        detail=detail,
        sample='{"bytes": 7}',
        request_id=REQUEST,
        attempt=1,
    )


def test_a_rule_has_one_row_an_hour_with_the_first_facts_and_the_sum(node: Node) -> None:
    later = NOW + timedelta(minutes=5)

    evidence.record(incidents=[_incident(node, detail="first", count=3)])
    evidence.record(incidents=[_incident(node, at=later, detail="later", count=4)])

    row = NodeEvidence.objects.get()
    assert (row.count, row.detail, row.first_at, row.last_at) == (7, "first", NOW, later)
    assert row.hour == NOW.replace(minute=0)


def test_a_node_that_nobody_knows_stops_nobody_elses_evidence(node: Node) -> None:
    stranger = Incident(node_id=node.pk + 1_000, rule="tunnel_flood", count=1, first_at=NOW, last_at=NOW)

    assert evidence.record(incidents=[stranger, _incident(node)]) == 1

    assert NodeEvidence.objects.get().node == node


def test_two_processes_add_to_the_same_row(node: Node) -> None:
    for _ in range(2):
        evidence.record(incidents=[_incident(node, "usage_invalid"), _incident(node)])

    assert list(NodeEvidence.objects.order_by("rule").values_list("rule", "count")) == [
        ("tunnel_flood", 2),
        ("usage_invalid", 2),
    ]


def test_a_flood_of_one_hour_weighs_once(node: Node) -> None:
    evidence.record(incidents=[_incident(node, count=1_000_000)])

    assert selectors.distrusted(now=NOW) == frozenset()


@pytest.mark.parametrize(("rule", "weight"), [("tunnel_flood", 0.5), ("node_silent", for_gateway.UNKNOWN_WEIGHT)])
def test_three_hours_of_a_day_halve_the_weight_where_the_rule_is_hostile(node: Node, rule: str, weight: float) -> None:
    before = for_gateway.standings_digest(now=NOW)
    for hours in (0, 5, 23):
        evidence.record(incidents=[_incident(node, rule, at=NOW - timedelta(hours=hours))])

    standing = for_gateway.standings(now=NOW).get(node.pk)

    assert (standing.weight if standing else for_gateway.UNKNOWN_WEIGHT) == weight
    assert (for_gateway.standings_digest(now=NOW) != before) is (weight == 0.5)


def test_the_weight_comes_back_after_a_day(node: Node) -> None:
    for hours in (0, 1, 2):
        evidence.record(incidents=[_incident(node, at=NOW - timedelta(hours=hours))])
    assert selectors.distrusted(now=NOW) == frozenset({node.pk})

    assert selectors.distrusted(now=NOW + timedelta(hours=24)) == frozenset()


def test_old_evidence_is_forgotten(node: Node) -> None:
    evidence.record(incidents=[_incident(node, at=NOW - timedelta(days=31)), _incident(node)])

    assert evidence.forget(now=NOW) == 1

    assert NodeEvidence.objects.get().first_at == NOW


def test_a_provider_sees_what_and_how_often_the_operator_also_the_facts(node: Node) -> None:
    evidence.record(incidents=[_incident(node, detail="4,097 frames")])

    (theirs,) = selectors.evidence_of(node=node, with_facts=False)
    (ours,) = selectors.evidence_of(node=node, with_facts=True)

    assert (theirs.what.title, theirs.count, theirs.weighs) == ("The tunnel was flooded", 1, True)
    assert (theirs.detail, theirs.sample, theirs.request_id, theirs.attempt) == ("", "", None, None)
    assert (ours.detail, ours.sample, ours.request_id, ours.attempt) == ("4,097 frames", '{"bytes": 7}', REQUEST, 1)


def test_the_pages_of_a_node_show_it_to_provider_and_operator(world: World) -> None:
    node = NodeFactory(provider=world.provider)
    evidence.record(incidents=[_incident(node, detail="4,097 frames", at=clock.now())])

    theirs = world.client(world.supplier.owner).get(f"/provider/nodes/{node.public_id}/").text
    ours = world.client(world.operator).get(f"/operator/nodes/{node.public_id}/").text

    assert "The tunnel was flooded" in theirs
    assert "The tunnel was flooded" in ours
    facts = ("4,097 frames", str(REQUEST), "&quot;bytes&quot;: 7")
    assert [fact for fact in facts if fact in theirs] == []
    assert [fact for fact in facts if fact not in ours] == []
