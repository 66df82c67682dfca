"""The line before a model whose nodes are all full: short, fair to organizations, and moved by places that come free.

A place is handed to a waiting request in the moment it comes free, so that nobody who arrives later takes it.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from portal.gateway.breaker import Verdict
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import NodeEntry, Snapshot
from portal.gateway.exchange import CustomerGone, Exchange
from portal.gateway.load import Ticket
from portal.gateway.routing import Choice, Router, Wanted

LONGEST_WAIT_S: Final = 2.0
MAX_WAITING: Final = 256
_MOST_KINDS: Final = 32


@dataclass(eq=False, slots=True)
class _Waiter:
    """One request in a line. A customer who leaves interrupts it."""

    wanted: Wanted
    tried: set[int]
    refusal: NoCapacity
    place: asyncio.Future[Choice]

    def interrupt(self) -> None:
        """Leave the line: nobody waits for the answer."""
        self.end(CustomerGone())

    def end(self, error: Exception) -> None:
        """Wait no longer."""
        if not self.place.done():
            self.place.set_exception(error)


@dataclass(slots=True)
class _Line:
    """The waiting requests of one model, in the order of their organizations' turns."""

    queues: OrderedDict[int, deque[_Waiter]] = field(default_factory=OrderedDict)
    length: int = 0

    def add(self, waiter: _Waiter) -> None:
        self.queues.setdefault(waiter.wanted.key.organization_id, deque()).append(waiter)
        self.length += 1

    def drop(self, waiter: _Waiter) -> None:
        organization_id = waiter.wanted.key.organization_id
        queue = self.queues.get(organization_id)
        if queue is None or waiter not in queue:
            return
        queue.remove(waiter)
        self.length -= 1
        if not queue:
            del self.queues[organization_id]

    def in_turn(self) -> Iterator[_Waiter]:
        """Yield who waits, the organization whose turn it is first; only the one that is handed a place may leave."""
        for queue in self.queues.values():
            yield from (waiter for waiter in queue if not waiter.place.done())

    def hand_over(self, waiter: _Waiter, choice: Choice) -> None:
        """Give the waiter its place; its organization's next turn comes after all others'."""
        self.drop(waiter)
        organization_id = waiter.wanted.key.organization_id
        if organization_id in self.queues:
            self.queues.move_to_end(organization_id)
        waiter.place.set_result(choice)

    def make_room(self, newcomer: _Waiter) -> bool:
        """Take the newest request out of the longest queue, when the newcomer's organization has fewer waiting."""
        longest = max(self.queues.values(), key=len)
        own = len(self.queues.get(newcomer.wanted.key.organization_id, ()))
        if len(longest) <= own + 1:
            return False
        last = longest[-1]
        self.drop(last)
        last.end(last.refusal)
        return True


class Waiting:
    """The lines of this process."""

    def __init__(self, router: Router, *, longest_line: int = MAX_WAITING) -> None:
        self._router = router
        self._longest_line = longest_line
        self._lines: dict[int, _Line] = {}
        self._snapshot: Snapshot | None = None
        router.on_leave(self._freed)

    @property
    def depth(self) -> int:
        """How many requests wait now."""
        return sum(line.length for line in self._lines.values())

    @property
    def depth_by_model(self) -> dict[int, int]:
        """How many wait now, by model id."""
        return {model_id: line.length for model_id, line in self._lines.items() if line.length}

    async def wait(
        self, wanted: Wanted, refusal: NoCapacity, exchange: Exchange, *, tried: set[int], timeout_s: float
    ) -> Choice:
        """Return a place on a node once one is free. Raises NoCapacity at the end of the time, CustomerGone."""
        loop = asyncio.get_running_loop()
        waiter = _Waiter(wanted, tried, refusal, loop.create_future())
        line = self._lines.setdefault(wanted.model.id, _Line())
        if line.length >= self._longest_line and not line.make_room(waiter):
            raise refusal
        line.add(waiter)
        timers = [loop.call_later(timeout_s, waiter.end, refusal)]
        if refusal.soonest_s is not None and refusal.soonest_s < timeout_s:
            timers.append(loop.call_later(refusal.soonest_s, self._look_again, waiter))
        exchange.interrupts(waiter)
        began = loop.time()
        try:
            choice = await waiter.place
        except asyncio.CancelledError:
            self._give_back(waiter)
            raise
        finally:
            exchange.interrupts(None)
            line.drop(waiter)
            for timer in timers:
                timer.cancel()
        choice.routing["waited_ms"] = round((loop.time() - began) * 1_000)
        return choice

    def renew(self, snapshot: Snapshot) -> None:
        """Take the new snapshot: nodes may have come, or grown."""
        self._snapshot = snapshot
        for model_id, line in self._lines.items():
            if line.length:
                self._router.has_room_again(model_id)
                self._choose_for_all(line, snapshot)

    def note_node(self, node_id: int) -> None:
        """Take it that a node's tunnel came, or that its agent said what it runs now."""
        node = self._node(node_id)
        if node is not None:
            for model_id in node.models:
                self._router.has_room_again(model_id)
                self._fill(model_id, node)

    def _freed(self, ticket: Ticket) -> bool:
        line = self._lines.get(ticket.model_id)
        if line is None or not line.length:
            return False
        if ticket.verdict is Verdict.BACKPRESSURE:
            loop = asyncio.get_running_loop()
            loop.call_later(ticket.backoff_s, self._fill_again, ticket.model_id, ticket.node_id)
            return False
        node = self._node(ticket.node_id)
        return node is not None and self._offer(line, node)

    def _fill_again(self, model_id: int, node_id: int) -> None:
        node = self._node(node_id)
        if node is not None:
            self._fill(model_id, node)

    def _fill(self, model_id: int, node: NodeEntry) -> None:
        """Give away as many places as the node has."""
        line = self._lines.get(model_id)
        while line is not None and line.length and self._offer(line, node):
            continue

    def _offer(self, line: _Line, node: NodeEntry) -> bool:
        """Give one place on the node to whoever's turn it is among those who may use it."""
        snapshot = self._snapshot
        if snapshot is None:
            return False
        for waiter in line.in_turn():
            choice = self._router.try_node(node, waiter.wanted, snapshot, tried=waiter.tried)
            if choice is not None:
                line.hand_over(waiter, choice)
                return True
        return False

    def _choose_for_all(self, line: _Line, snapshot: Snapshot) -> None:
        """Choose anew for the whole line; of those who want alike, the first refusal holds for all."""
        refused: set[object] = set()
        is_moving = True
        while is_moving and len(refused) < _MOST_KINDS:
            is_moving = False
            for waiter in line.in_turn():
                kind = (waiter.wanted.signature, frozenset(waiter.tried))
                if kind in refused:
                    continue
                try:
                    choice = self._router.choose(waiter.wanted, snapshot, tried=waiter.tried)
                except NoCapacity:
                    refused.add(kind)
                    continue
                line.hand_over(waiter, choice)
                is_moving = True
                break

    def _look_again(self, waiter: _Waiter) -> None:
        """Choose anew for one request: a node that wanted to be left alone may be asked again."""
        if waiter.place.done() or self._snapshot is None:
            return
        self._router.has_room_again(waiter.wanted.model.id)
        try:
            choice = self._router.choose(waiter.wanted, self._snapshot, tried=waiter.tried)
        except NoCapacity as refusal:
            waiter.refusal = refusal
            return
        self._lines[waiter.wanted.model.id].hand_over(waiter, choice)

    def _node(self, node_id: int) -> NodeEntry | None:
        return None if self._snapshot is None else self._snapshot.nodes.get(node_id)

    def _give_back(self, waiter: _Waiter) -> None:
        """A place that was handed over in the moment its request was cancelled is free again."""
        place = waiter.place
        if place.done() and not place.cancelled() and place.exception() is None:
            place.result().ticket.leave(Verdict.NEUTRAL, 0.0)
