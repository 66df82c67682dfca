"""Many nodes of one model: a request looks at a few of them, everybody gets a share by speed, newcomers are learned."""

import heapq
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest

from portal.gateway.affinity import session_key
from portal.gateway.breaker import Verdict
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import KeyPolicy, NodeEntry
from portal.gateway.load import EXPLORED_SAMPLES
from portal.gateway.routing import Router, Wanted
from tests.factories.gateway import key_entry, model_entry, node_entry, price_entry, snapshot

TOKENS = 100


@dataclass
class _Tunnel:
    ready_models: dict[str, int] = field(default_factory=lambda: {"acme/chat-8b": 4_096})


class _Tunnels:
    """Counts how many nodes were looked at."""

    def __init__(self, own: set[int] | None = None) -> None:
        self.looks = 0
        self._own = own or set()

    def local(self, node_id: int) -> _Tunnel | None:
        self.looks += 1
        return _Tunnel() if node_id in self._own else None

    def is_reachable(self, node: NodeEntry) -> bool:
        return True


class _Pool:
    """Nodes that write at their own speed, and a clock that runs from one end of an answer to the next."""

    def __init__(self, speeds: dict[int, float], *, own: set[int] | None = None, **node: Any) -> None:
        self.now = 0.0
        self.tunnels = _Tunnels(own)
        self.speeds = speeds
        chance = random.Random(11)  # noqa: S311  a seed makes the simulation repeatable
        self.router = Router(tunnels=self.tunnels, clock=lambda: self.now, chance=chance)
        self.nodes = [node_entry(id=number, **{"models": {1: 64}} | node) for number in speeds]
        self.snapshot = snapshot(*self.nodes)
        self._running: list[tuple[float, int, Any]] = []
        self._number = 0

    def know(self, *numbers: int) -> None:
        for number in numbers:
            for _ in range(EXPLORED_SAMPLES):
                self.router.load(number).learn(ttft_s=0.1, tokens=TOKENS, seconds=TOKENS / self.speeds[number])

    def ask(self, **wanted: Any) -> Any:
        return self.router.choose(_wanted(**wanted), self.snapshot, tried=set())

    def serve(self, requests: int, *, at_once: int, **wanted: Any) -> Counter[int]:
        """Keep `at_once` requests running; return how many each node served."""
        served: Counter[int] = Counter()
        for _ in range(requests):
            if len(self._running) >= at_once:
                self._finish()
            choice = self.ask(**wanted)
            served[choice.node.id] += 1
            together = choice.ticket.load.running[1]
            self._number += 1
            end = self.now + 0.1 + TOKENS * together / self.speeds[choice.node.id]
            heapq.heappush(self._running, (end, self._number, (choice, self.now)))
        while self._running:
            self._finish()
        return served

    def _finish(self) -> None:
        self.now, _, (choice, began) = heapq.heappop(self._running)
        seconds = max(self.now - began - 0.1, 1e-3)
        choice.ticket.load.learn(ttft_s=0.1, tokens=TOKENS, seconds=seconds)
        choice.ticket.leave(Verdict.SUCCESS, self.now)


def _wanted(**values: Any) -> Wanted:
    defaults: dict[str, Any] = {
        "key": key_entry(),
        "model": model_entry(),
        "price": price_entry(),
        "at": 0.0,
        "has_tools": False,
        "tokens": TOKENS,
        "affinity": None,
    }
    return Wanted(**defaults | values)


def test_slow_nodes_get_their_share_and_fast_ones_more() -> None:
    pool = _Pool({number: 400.0 if number <= 10 else 100.0 for number in range(1, 21)})
    pool.know(*pool.speeds)

    served = pool.serve(4_000, at_once=60)

    fast = sum(served[number] for number in range(1, 11))
    slow = sum(served[number] for number in range(11, 21))
    assert all(served[number] for number in pool.speeds)
    # Four times the speed is worth four times the requests under full load; two choices come near it.
    assert 2.0 < fast / slow < 6.0


def test_a_new_node_is_explored_and_then_believed() -> None:
    speeds = dict.fromkeys(range(1, 301), 100.0)
    pool = _Pool(speeds)
    pool.know(*(number for number in speeds if number != 300))
    pool.router.load(300).tokens_per_s = 1.0

    pool.serve(1_500, at_once=40)

    assert pool.router.load(300).samples >= 15
    assert pool.router.load(300).tokens_per_s > 50.0


def test_a_remote_tunnel_costs_a_little_and_an_own_one_is_preferred() -> None:
    pool = _Pool(dict.fromkeys(range(1, 41), 100.0), own=set(range(1, 21)))
    pool.know(*pool.speeds)

    served = pool.serve(2_000, at_once=40)

    own = sum(served[number] for number in range(1, 21))
    assert 0.5 < own / 2_000 < 0.9


def test_a_node_of_little_trust_gets_little() -> None:
    pool = _Pool(dict.fromkeys(range(1, 11), 100.0))
    pool.nodes = [node_entry(id=n, models={1: 64}, trust_weight=0.1 if n == 1 else 1.0) for n in range(1, 11)]
    pool.snapshot = snapshot(*pool.nodes)
    pool.know(*pool.speeds)

    served = pool.serve(2_000, at_once=20)

    assert served[1] < 0.3 * 200  # its share by speed alone


def test_one_session_does_not_overload_its_home() -> None:
    pool = _Pool(dict.fromkeys(range(1, 41), 100.0))
    pool.know(*pool.speeds)
    affinity = session_key(key_entry(), "one busy session")

    running = [pool.ask(affinity=affinity, is_session=True) for _ in range(200)]

    most = max(Counter(choice.node.id for choice in running).values())
    assert most <= 16 + 1  # a quarter of what a node takes at once; two choices may add to it
    assert running[0].routing["by"] == "session"
    assert len({choice.node.id for choice in running}) > 10


def test_a_session_stays_at_home_while_others_come_and_go() -> None:
    pool = _Pool(dict.fromkeys(range(1, 41), 100.0))
    pool.know(*pool.speeds)
    affinity = session_key(key_entry(), "s")
    homes: Counter[int] = Counter()
    for _ in range(100):
        pool.serve(5, at_once=5)
        choice = pool.ask(affinity=affinity, is_session=True)
        homes[choice.node.id] += 1
        choice.ticket.leave(Verdict.SUCCESS, pool.now)

    assert list(homes.values()) == [100]


@pytest.mark.parametrize("affinity", [None, b"a prefix"])
def test_a_choice_looks_at_a_handful_of_two_thousand_nodes(affinity: bytes | None) -> None:
    pool = _Pool(dict.fromkeys(range(1, 2_001), 100.0))
    pool.know(*pool.speeds)
    pool.ask()
    pool.tunnels.looks = 0

    for _ in range(100):
        pool.ask(affinity=affinity)

    assert pool.tunnels.looks <= 100 * 10


def test_the_few_that_policy_allows_are_found_among_two_thousand() -> None:
    pool = _Pool(dict.fromkeys(range(1, 2_001), 100.0), country="US")
    pool.nodes[1_234] = node_entry(id=1_235, country="FR", models={1: 64})
    pool.snapshot = snapshot(*pool.nodes)

    choice = pool.ask(key=key_entry(policy=KeyPolicy(countries=frozenset({"FR"}))))

    assert choice.node.id == 1_235
    assert choice.routing["refused"] == {"region": 1_999}


def test_the_last_free_place_of_many_full_nodes_is_found() -> None:
    pool = _Pool(dict.fromkeys(range(1, 201), 100.0), models={1: 1})
    taken = {pool.ask().node.id for _ in range(200)}

    assert len(taken) == 200
    with pytest.raises(NoCapacity) as refusal:
        pool.ask()
    assert refusal.value.refused == {"full": 200}


def test_full_nodes_are_not_all_looked_at_for_each_refusal() -> None:
    pool = _Pool(dict.fromkeys(range(1, 201), 100.0), models={1: 1})
    choices = [pool.ask() for _ in range(200)]
    with pytest.raises(NoCapacity):
        pool.ask()
    pool.tunnels.looks = 0

    for _ in range(50):
        with pytest.raises(NoCapacity) as refusal:
            pool.ask()

    assert pool.tunnels.looks == 0
    assert refusal.value.refused == {"full": 200}
    choices[77].ticket.leave(Verdict.SUCCESS, 0.0)
    assert pool.ask().node.id == choices[77].node.id
