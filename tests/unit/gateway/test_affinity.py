"""Requests of one session or with one prefix find one node, and nobody else's requests find it by theirs."""

import pytest

from portal.gateway import affinity
from portal.gateway.affinity import NodeRing, affinity_key, session_key
from portal.gateway.errors import ApiError
from tests.factories.gateway import key_entry, node_entry

_LONG = [{"role": "user", "content": "x" * 2_000}]


def test_short_prompts_and_other_organizations_share_no_prefix() -> None:
    assert affinity_key(key_entry(), [{"role": "user", "content": "short"}]) is None
    assert affinity_key(key_entry(), _LONG) != affinity_key(key_entry(organization_id=11), _LONG)


def test_a_session_is_one_organizations_own() -> None:
    assert session_key(key_entry(), "s1") == session_key(key_entry(id=2), "s1")
    assert session_key(key_entry(), "s1") != session_key(key_entry(), "s2")
    assert session_key(key_entry(), "s1") != session_key(key_entry(organization_id=11), "s1")


def test_the_header_names_the_session_before_the_hint_does() -> None:
    headers = {b"x-session-id": b"chat-42"}

    assert affinity.session_of(headers, {"prompt_cache_key": "hint"}) == "chat-42"
    assert affinity.session_of({}, {"prompt_cache_key": "hint"}) == "hint"
    assert affinity.session_of({}, {}) is None
    assert affinity.session_of({}, {"prompt_cache_key": 7}) is None


@pytest.mark.parametrize("value", [b"", b"x" * 129, b"a\x01b", "é".encode("latin-1")])
def test_what_is_no_session_id_is_refused_by_name(value: bytes) -> None:
    with pytest.raises(ApiError) as refusal:
        affinity.session_of({b"x-session-id": value}, {})

    assert (refusal.value.status, refusal.value.code, refusal.value.param) == (400, "invalid_value", "x-session-id")


def test_a_node_that_goes_moves_only_its_own_sessions() -> None:
    nodes = [node_entry(id=number) for number in range(1, 41)]
    keys = [session_key(key_entry(), f"s{number}") for number in range(2_000)]
    before = {key: next(NodeRing(nodes).walk(key, 1)).id for key in keys}

    ring = NodeRing([node for node in nodes if node.id != 7])
    moved = {key for key in keys if next(ring.walk(key, 1)).id != before[key]}

    assert moved == {key for key, home in before.items() if home == 7}
    assert 0 < len(moved) < 200


def test_the_ring_gives_no_node_several_times_its_share() -> None:
    nodes = [node_entry(id=number) for number in range(1, 41)]
    ring = NodeRing(nodes)
    homes = [next(ring.walk(session_key(key_entry(), f"s{number}"), 1)).id for number in range(8_000)]

    counts = sorted(homes.count(node.id) for node in nodes)

    assert counts[-1] < 2.5 * 200  # the fair share of 8,000 among 40
    assert sum(counts) == 8_000


def test_the_walk_ends_after_its_steps_and_names_no_node_twice() -> None:
    ring = NodeRing([node_entry(id=number) for number in (1, 2)])

    assert sorted(node.id for node in ring.walk(b"k", 5)) == [1, 2]
