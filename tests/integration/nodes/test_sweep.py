"""Silent nodes go offline by the server's clock; a silent platform moves nobody."""

from datetime import timedelta

import pytest

from portal.nodes.models import MassSilence, Node, NodeEvent, NodeState
from portal.nodes.services.silence import Sweep, sweep_silent
from tests.factories.nodes import NodeFactory


def nodes(count: int, *, seen, **fields) -> list[Node]:
    return [NodeFactory(last_heartbeat_at=seen, **fields) for _ in range(count)]


def offline() -> int:
    return Node.objects.filter(state=NodeState.OFFLINE).count()


def test_a_node_is_offline_after_45_seconds(db, now):
    nodes(1, seen=now - timedelta(seconds=46))
    nodes(1, seen=now - timedelta(seconds=44))

    assert sweep_silent(now=now) == Sweep(silent=1, moved=1, is_platform_fault=False)

    event = NodeEvent.objects.get()
    assert (event.to_state, event.code, event.cause) == ("offline", "heartbeat_missed", "provider_network")


def test_sweeping_twice_moves_once(db, now):
    nodes(1, seen=now - timedelta(minutes=2))

    assert [sweep_silent(now=now).moved for _ in range(2)] == [1, 0]


@pytest.mark.parametrize("state", [NodeState.ENROLLED, NodeState.SUSPENDED, NodeState.RETIRED, NodeState.OFFLINE])
def test_only_live_nodes_can_fall_silent(db, now, state):
    nodes(1, seen=now - timedelta(hours=1), state=state)

    assert sweep_silent(now=now).silent == 0


def test_mass_silence_is_the_platforms_fault_and_moves_nobody(db, now):
    nodes(4, seen=now - timedelta(seconds=50))
    nodes(10, seen=now)

    assert sweep_silent(now=now) == Sweep(silent=4, moved=0, is_platform_fault=True)
    assert (offline(), NodeEvent.objects.count()) == (0, 0)


def test_a_silence_of_all_moves_not_even_those_whose_heartbeat_fell_due_first(db, now):
    nodes(1, seen=now - timedelta(seconds=46))
    nodes(9, seen=now - timedelta(seconds=32))

    assert sweep_silent(now=now) == Sweep(silent=1, moved=0, is_platform_fault=True)
    assert offline() == 0


def test_a_few_of_many_are_their_own_fault(db, now):
    nodes(4, seen=now - timedelta(seconds=50))
    nodes(16, seen=now)

    assert sweep_silent(now=now).moved == 4


def test_a_lasting_mass_silence_is_told_as_it_is_without_blame(db, now):
    nodes(5, seen=now - timedelta(minutes=11))
    nodes(5, seen=now)

    assert sweep_silent(now=now).moved == 5
    assert set(NodeEvent.objects.values_list("code", "cause")) == {("platform_silence", "platform")}


def test_the_nodes_own_clock_has_no_say(db, now):
    NodeFactory(last_heartbeat_at=now - timedelta(seconds=10), clock_offset_ms=-36_000_000)

    assert sweep_silent(now=now).silent == 0


def test_a_mass_silence_is_remembered_as_long_as_it_lasts(db, now):
    nodes(5, seen=now - timedelta(seconds=50))

    sweep_silent(now=now)
    sweep_silent(now=now + timedelta(seconds=15))

    seen = MassSilence.objects.get()
    assert (seen.began_at, seen.last_seen_at, seen.nodes) == (
        now - timedelta(seconds=50),
        now + timedelta(seconds=15),
        5,
    )


def test_the_last_to_come_back_after_a_mass_silence_are_not_blamed(db, now):
    fleet = nodes(10, seen=now - timedelta(minutes=3))
    sweep_silent(now=now)
    back = now + timedelta(seconds=15)
    Node.objects.filter(id__in=[node.id for node in fleet[:9]]).update(last_heartbeat_at=back)

    assert sweep_silent(now=back + timedelta(seconds=14)) == Sweep(silent=1, moved=0, is_platform_fault=False)
    assert (offline(), NodeEvent.objects.count()) == (0, 0)


def test_whoever_never_comes_back_is_offline_after_two_minutes(db, now):
    fleet = nodes(10, seen=now - timedelta(minutes=3))
    sweep_silent(now=now)
    later = now + timedelta(minutes=2)
    Node.objects.filter(id__in=[node.id for node in fleet[:9]]).update(last_heartbeat_at=later)

    assert sweep_silent(now=later).moved == 1
    assert NodeEvent.objects.get().code == "heartbeat_missed"


def test_a_node_that_falls_silent_after_a_mass_silence_is_on_its_own(db, now):
    nodes(10, seen=now - timedelta(seconds=50))
    sweep_silent(now=now)
    Node.objects.update(last_heartbeat_at=now + timedelta(seconds=80))
    nodes(1, seen=now + timedelta(seconds=20))

    assert sweep_silent(now=now + timedelta(seconds=81)).moved == 1
