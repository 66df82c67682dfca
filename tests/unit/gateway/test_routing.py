"""Routing filters by policy, state and capacity, then takes the sooner of two; every choice says why."""

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from portal.gateway.affinity import affinity_key
from portal.gateway.breaker import Verdict
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import KeyEntry, KeyPolicy, NodeEntry
from portal.gateway.routing import Choice, Router, Wanted
from tests.factories.gateway import key_entry, model_entry, node_entry, price_entry, snapshot


@dataclass
class _Tunnel:
    ready_models: dict[str, int] = field(default_factory=lambda: {"acme/chat-8b": 8})


@dataclass
class _Tunnels:
    own: dict[int, _Tunnel] = field(default_factory=dict)
    unreachable: set[int] = field(default_factory=set)

    def local(self, node_id: int) -> _Tunnel | None:
        return self.own.get(node_id)

    def is_reachable(self, node: NodeEntry) -> bool:
        return node.id not in self.unreachable


def _router(tunnels: _Tunnels | None = None, seed: int = 7) -> Router:
    chance = random.Random(seed)  # noqa: S311  a seed makes the test repeatable
    return Router(tunnels=tunnels or _Tunnels(), clock=lambda: 100.0, chance=chance)


def _wanted(**values: Any) -> Wanted:
    defaults: dict[str, Any] = {
        "key": key_entry(),
        "model": model_entry(),
        "price": price_entry(),
        "at": 0.0,
        "has_tools": False,
        "tokens": 100,
        "affinity": None,
    }
    return Wanted(**defaults | values)


def _choose(router: Router, *nodes: NodeEntry, tried: set[int] | None = None, **wanted: Any) -> Choice:
    return router.choose(_wanted(**wanted), snapshot(*nodes), tried=tried or set())


def _refusal(router: Router, *nodes: NodeEntry, **wanted: Any) -> NoCapacity:
    with pytest.raises(NoCapacity) as refusal:
        _choose(router, *nodes, **wanted)
    assert (refusal.value.status, refusal.value.code) == (503, "no_capacity")
    assert refusal.value.retry_after_s
    return refusal.value


def _know(router: Router, *numbers: int, tps: float = 50.0) -> None:
    for number in numbers:
        for _ in range(30):
            router.load(number).learn(ttft_s=0.1, tokens=int(tps), seconds=1.0)


def test_the_only_node_is_chosen_and_the_choice_is_explained() -> None:
    choice = _choose(_router(), node_entry(id=3), node_entry(id=4, node_class="community"))

    assert choice.node.id == 3
    assert choice.routing["by"] == "only"
    assert choice.routing["refused"] == {"class": 1}
    assert choice.routing["node"] == "node_3"


def test_an_organization_never_earns_from_itself() -> None:
    own = node_entry(id=3, organization_id=10)

    assert "your own organization" in _refusal(_router(), own).message


def test_tools_need_house_or_contracted_unless_the_key_says_otherwise() -> None:
    key = key_entry(node_classes=frozenset({"community"}))
    node = node_entry(id=3, node_class="community")

    assert "tools" in _refusal(_router(), node, key=key, has_tools=True).message
    assert _choose(_router(), node, key=key).node.id == 3
    bold: KeyEntry = key_entry(node_classes=frozenset({"community"}), tools_on_any_class=True)
    assert _choose(_router(), node, key=bold, has_tools=True).node.id == 3


def test_a_node_without_a_tunnel_is_left_out() -> None:
    router = _router(_Tunnels(unreachable={3}))

    assert "not connected" in _refusal(router, node_entry(id=3)).message
    assert _choose(router, node_entry(id=3), node_entry(id=4)).node.id == 4


def test_a_local_agents_word_narrows_what_the_portal_says() -> None:
    router = _router(_Tunnels(own={3: _Tunnel(ready_models={})}))

    assert "starting" in _refusal(router, node_entry(id=3)).message


def test_a_full_node_waits_for_a_place() -> None:
    router = _router()
    node = node_entry(id=3, models={1: 2})
    first, _second = _choose(router, node), _choose(router, node)

    assert "full" in _refusal(router, node).message
    first.ticket.leave(Verdict.SUCCESS, 100.0)
    first.ticket.leave(Verdict.SUCCESS, 100.0)
    assert _choose(router, node).node.id == 3
    assert "full" in _refusal(router, node).message


def test_an_open_breaker_is_a_reason() -> None:
    router = _router()
    for _ in range(5):
        _choose(router, node_entry(id=3)).ticket.leave(Verdict.FAULT, 100.0)

    assert "probed" in _refusal(router, node_entry(id=3)).message


def test_tried_nodes_are_not_tried_again() -> None:
    assert _choose(_router(), node_entry(id=3), node_entry(id=4), tried={3}).node.id == 4


def test_the_sooner_of_two_is_taken() -> None:
    router = _router()
    nodes = [node_entry(id=number, models={1: 100}) for number in (3, 4)]
    for number, speed in ((3, 10.0), (4, 200.0)):
        for _ in range(30):
            router.load(number).learn(ttft_s=0.1, tokens=int(speed), seconds=1.0)

    chosen = Counter(_choose(router, *nodes).node.id for _ in range(40))

    assert chosen[4] > 30


def test_trust_weighs() -> None:
    router = _router()
    nodes = [node_entry(id=3, trust_weight=0.1), node_entry(id=4, trust_weight=1.0)]
    for number in (3, 4):
        for _ in range(30):
            router.load(number).learn(ttft_s=0.1, tokens=50, seconds=1.0)

    choice = _choose(router, *nodes)

    assert choice.node.id == 4
    assert choice.routing["against"]["node"] == "node_3"


def test_an_own_tunnel_is_preferred_at_equal_speed() -> None:
    router = _router(_Tunnels(own={4: _Tunnel()}))
    for number in (3, 4):
        for _ in range(30):
            router.load(number).learn(ttft_s=0.1, tokens=50, seconds=1.0)

    choice = _choose(router, node_entry(id=3), node_entry(id=4))

    assert choice.node.id == 4
    assert choice.routing["is_local"] is True


def test_a_shared_prefix_returns_to_its_node_until_that_carries_more_than_its_share() -> None:
    router = _router()
    nodes = [node_entry(id=number, models={1: 100}) for number in (3, 4, 5)]
    _know(router, 3, 4, 5)
    prefix = affinity_key(key_entry(), [{"role": "user", "content": "x" * 2_000}])

    homes = set()
    for _ in range(20):
        choice = _choose(router, *nodes, affinity=prefix)
        homes.add(choice.node.id)
        assert choice.routing["by"] == "affinity"
        choice.ticket.leave(Verdict.SUCCESS, 100.0)
    assert len(homes) == 1

    chosen = Counter(_choose(router, *nodes, affinity=prefix).node.id for _ in range(60))
    (home,) = homes
    # A quarter of what it takes at once it may always carry; beyond that, a quarter more than its share of all.
    assert chosen[home] == 25
    assert sorted(chosen.values(), reverse=True)[1:] == [25, 10]


def test_new_nodes_are_explored() -> None:
    router = _router()
    for _ in range(30):
        router.load(3).learn(ttft_s=0.01, tokens=1_000, seconds=1.0)
    router.load(4).learn(ttft_s=30.0, tokens=2, seconds=10.0)

    by = Counter(_choose(router, node_entry(id=3, models={1: 999}), node_entry(id=4)).routing["by"] for _ in range(100))

    assert 0 < by["exploration"] < 20


def test_a_node_in_another_country_is_left_out() -> None:
    key = key_entry(policy=KeyPolicy(countries=frozenset({"DE", "FR"})))
    abroad, here = node_entry(id=3, country="US"), node_entry(id=4, country="DE")

    refusal = _refusal(_router(), abroad, key=key)

    assert (refusal.reason, refusal.refused) == ("region", {"region": 1})
    assert "allow more countries" in refusal.message
    assert refusal.retry_after_s == 30.0
    assert not refusal.may_wait
    choice = _choose(_router(), abroad, here, key=key)
    assert choice.node.id == 4
    assert choice.routing["refused"] == {"region": 1}


def test_the_reason_that_helps_soonest_is_told_and_all_are_counted() -> None:
    router = _router(_Tunnels(unreachable={5}))
    full = node_entry(id=3, models={1: 1})
    _choose(router, full)

    refusal = _refusal(router, full, node_entry(id=4, node_class="community"), node_entry(id=5))

    assert refusal.refused == {"full": 1, "class": 1, "tunnel": 1}
    assert (refusal.reason, refusal.may_wait, refusal.retry_after_s) == ("full", True, 1.0)


def test_a_busy_nodes_own_time_is_the_retry_after() -> None:
    router = _router()
    node = node_entry(id=3)
    _choose(router, node).ticket.leave(Verdict.BACKPRESSURE, 100.0, backoff_s=2.5)

    refusal = _refusal(router, node)

    assert (refusal.reason, refusal.retry_after_s, refusal.may_wait) == ("busy", 2.5, True)


# production-stack#1072, vllm-project/router#211
def test_in_flight_counters_are_lowered_once_whatever_happens() -> None:
    router = _router()
    node = node_entry(id=3, models={1: 4})
    tickets = [_choose(router, node).ticket for _ in range(4)]

    for ticket, verdict in zip(tickets, Verdict, strict=True):
        ticket.leave(verdict, 100.0, backoff_s=0.0)
        ticket.leave(Verdict.SUCCESS, 100.0)

    load = router.load(3)
    assert (load.running, load.tokens) == ({1: 0}, 0)
    assert _choose(router, node).node.id == 3
