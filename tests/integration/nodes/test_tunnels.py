"""One gateway process holds a node's tunnel: compare-and-set by generation."""

from datetime import timedelta

import pytest

from portal.nodes.models import NodeState, Tunnel
from portal.nodes.services import tunnels
from tests.factories.nodes import NodeFactory


@pytest.fixture
def node(db):
    return NodeFactory(generation=5)


def claim(node, now, *, generation: int = 5, process: str = "gateway@0") -> bool:
    return tunnels.claim(node_id=node.pk, generation=generation, process=process, peer=f"/run/{process}", now=now)


def test_a_tunnel_is_claimed_and_moves_to_the_process_that_claims_last(node, now):
    assert claim(node, now)
    assert claim(node, now + timedelta(seconds=1), process="gateway@1")

    row = Tunnel.objects.get()
    assert (row.process, row.peer, row.generation) == ("gateway@1", "/run/gateway@1", 5)


@pytest.mark.parametrize("generation", [4, 6])
def test_only_the_newest_session_may_claim(node, now, generation):
    assert not claim(node, now, generation=generation)
    assert not Tunnel.objects.exists()


def test_an_older_generation_never_takes_a_tunnel_back(node, now):
    assert claim(node, now)
    node.generation = 4
    node.save()

    assert not claim(node, now, generation=4, process="gateway@1")
    assert Tunnel.objects.get().process == "gateway@0"


@pytest.mark.parametrize("state", [NodeState.SUSPENDED, NodeState.RETIRED])
def test_a_closed_node_gets_no_tunnel(node, now, state):
    node.state = state
    node.save()

    assert not claim(node, now)


def test_only_the_owner_releases_and_touches(node, now):
    claim(node, now)
    later = now + timedelta(seconds=9)
    stranger = {"node_id": node.pk, "generation": 5, "process": "gateway@1", "now": later}

    assert not tunnels.release(**stranger)
    assert not tunnels.touch(**stranger)
    assert tunnels.touch(**{**stranger, "process": "gateway@0"})
    assert Tunnel.objects.get().seen_at == later
    assert tunnels.release(**{**stranger, "process": "gateway@0"})
    assert not Tunnel.objects.exists()


def test_a_late_release_of_an_old_tunnel_leaves_the_new_one(node, now):
    claim(node, now)
    node.generation = 6
    node.save()
    claim(node, now, generation=6)

    assert not tunnels.release(node_id=node.pk, generation=5, process="gateway@0", now=now)
    assert Tunnel.objects.get().generation == 6


def test_a_starting_process_gives_up_what_it_held_before(node, now):
    other = NodeFactory(generation=1)
    claim(node, now)
    claim(other, now, generation=1, process="gateway@1")

    assert tunnels.release_all(process="gateway@0") == 1
    assert Tunnel.objects.get().node == other
