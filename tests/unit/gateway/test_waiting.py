"""A full model's requests wait in a short line: fair to organizations, moved by freed places, left by who leaves."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portal.gateway import waiting
from portal.gateway.breaker import Verdict
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import KeyPolicy, NodeEntry, Snapshot
from portal.gateway.exchange import CustomerGone
from portal.gateway.routing import Choice, Router, Wanted
from portal.gateway.waiting import Waiting
from tests.factories.gateway import key_entry, model_entry, node_entry, price_entry, snapshot
from tests.fakes.customer import Customer


class _Tunnels:
    def local(self, node_id: int) -> None:
        return None

    def is_reachable(self, node: NodeEntry) -> bool:
        return True


class _Door:
    """A router with a line before it, and the requests that come to it."""

    def __init__(self, *nodes: NodeEntry, longest_line: int = waiting.MAX_WAITING) -> None:
        self.now = 100.0
        chance = random.Random(7)  # noqa: S311  a seed makes the test repeatable
        self.router = Router(tunnels=_Tunnels(), clock=lambda: self.now, chance=chance)
        self.line = Waiting(self.router, longest_line=longest_line)
        self.show(*nodes)

    def show(self, *nodes: NodeEntry) -> None:
        self.snapshot: Snapshot = snapshot(*nodes)
        self.line.renew(self.snapshot)

    def take(self, **key: Any) -> Choice:
        return self.router.choose(_wanted(**key), self.snapshot, tried=set())

    def come(self, *, customer: Customer | None = None, timeout_s: float = 5.0, **key: Any) -> "asyncio.Task[Choice]":
        """A request that finds its model full, and waits."""
        wanted = _wanted(**key)
        with pytest.raises(NoCapacity) as refusal:
            self.router.choose(wanted, self.snapshot, tried=set())
        assert refusal.value.may_wait
        exchange = (customer or Customer()).exchange
        return asyncio.ensure_future(self.line.wait(wanted, refusal.value, exchange, tried=set(), timeout_s=timeout_s))


def _wanted(**key: Any) -> Wanted:
    return Wanted(
        key=key_entry(**key),
        model=model_entry(),
        price=price_entry(),
        at=0.0,
        has_tools=False,
        tokens=100,
        affinity=None,
    )


def _leave(choice: Choice, verdict: Verdict = Verdict.SUCCESS, **how: float) -> None:
    choice.ticket.leave(verdict, 100.0, **how)


def _run(test: Callable[[], Awaitable[None]]) -> None:
    async def within_time() -> None:
        async with asyncio.timeout(10):
            await test()

    asyncio.run(within_time())


async def _settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_a_freed_place_goes_to_who_waited_and_not_to_who_came_later() -> None:
    async def test() -> None:
        node = node_entry(id=3, models={1: 1})
        door = _Door(node)
        held = door.take()
        waiter = door.come()
        await _settled()
        assert (door.line.depth, door.line.depth_by_model) == (1, {1: 1})

        _leave(held)

        with pytest.raises(NoCapacity):
            door.take()
        choice = await waiter
        assert (choice.node.id, choice.routing["by"]) == (3, "waited")
        assert choice.routing["waited_ms"] >= 0
        assert (door.line.depth, door.line.depth_by_model) == (0, {})

    _run(test)


def test_organizations_take_turns_and_each_is_served_in_its_order() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 1}))
        held = door.take()
        order: list[str] = []
        names = ["a1", "a2", "a3", "b1", "b2"]
        tasks = {name: door.come(organization_id={"a": 11, "b": 12}[name[0]]) for name in names}
        for name, task in tasks.items():
            task.add_done_callback(lambda _, name=name: order.append(name))
        await _settled()

        for _ in names:
            _leave(held)
            await _settled()
            held = tasks[order[-1]].result()

        assert order == ["a1", "b1", "a2", "b2", "a3"]

    _run(test)


def test_who_may_not_use_the_freed_place_is_passed_over() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 1}), node_entry(id=4, models={1: 1}, country="US"))
        first, second = door.take(), door.take()
        abroad = first if first.node.id == 4 else second
        choosy = door.come(policy=KeyPolicy(countries=frozenset({"DE"})))
        easy = door.come()
        await _settled()

        _leave(abroad)
        await _settled()

        assert not choosy.done()
        assert (await easy).node.id == 4
        choosy.cancel()

    _run(test)


def test_a_leaving_customer_leaves_the_line_at_once() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 1}))
        held = door.take()
        customer = Customer()
        await customer.exchange.read_body()
        customer.exchange.watch()
        waiter = door.come(customer=customer)
        await _settled()

        customer.leave()

        with pytest.raises(CustomerGone):
            await waiter
        assert door.line.depth == 0
        _leave(held)
        assert door.router.load(3).running == {1: 0}

    _run(test)


def test_the_wait_ends_with_the_refusal_it_began_with() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 1}))
        door.take()

        with pytest.raises(NoCapacity) as refusal:
            await door.come(timeout_s=0.02)

        assert (refusal.value.reason, refusal.value.retry_after_s) == ("full", 1.0)
        assert door.line.depth == 0

    _run(test)


def test_a_new_node_moves_the_line() -> None:
    async def test() -> None:
        node = node_entry(id=3, models={1: 1})
        door = _Door(node)
        door.take()
        waiters = [door.come() for _ in range(3)]
        await _settled()

        door.show(node, node_entry(id=4, models={1: 2}))

        assert [(await waiter).node.id for waiter in waiters[:2]] == [4, 4]
        assert not waiters[2].done()
        waiters[2].cancel()

    _run(test)


def test_a_busy_node_is_asked_again_when_its_time_is_over() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 2}))
        _leave(door.take(), Verdict.BACKPRESSURE, backoff_s=0.05)
        waiter = door.come()

        door.now += 0.05

        assert (await waiter).node.id == 3

    _run(test)


def test_a_node_that_turns_busy_while_others_wait_is_asked_again() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 1}))
        held = door.take()
        waiter = door.come()
        await _settled()

        _leave(held, Verdict.BACKPRESSURE, backoff_s=0.03)
        await _settled()
        assert not waiter.done()
        door.now += 0.03

        assert (await waiter).node.id == 3

    _run(test)


def test_a_cancelled_request_gives_the_place_back_that_it_had_just_been_given() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 1}))
        held = door.take()
        waiter = door.come()
        await _settled()

        _leave(held)
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter

        assert door.router.load(3).running == {1: 0}
        assert door.take().node.id == 3

    _run(test)


def test_the_line_is_bounded_and_the_greedy_make_room() -> None:
    async def test() -> None:
        door = _Door(node_entry(id=3, models={1: 1}), longest_line=3)
        door.take()
        greedy = [door.come(organization_id=11) for _ in range(3)]
        await _settled()

        with pytest.raises(NoCapacity):
            await door.come(organization_id=11)
        modest = door.come(organization_id=12)
        await _settled()

        assert [task.done() for task in greedy] == [False, False, True]
        assert isinstance(greedy[2].exception(), NoCapacity)
        assert not modest.done()
        assert door.line.depth == 3
        for task in [*greedy[:2], modest]:
            task.cancel()

    _run(test)
