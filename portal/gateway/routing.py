"""Which node serves a request: private ones first, then the pool; the sooner of two, explainable afterwards.

Of many nodes a few are drawn and checked: all are looked at only where the draws find none.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Final, Protocol

from portal.gateway.affinity import NodeRing
from portal.gateway.candidates import NodeView, Search, Wanted, policy_refusal, private_price, request_refusal
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import NodeEntry, PriceEntry, PrivateNode, Snapshot
from portal.gateway.load import NodeLoad, Ticket

__all__ = ["Choice", "Router", "Wanted"]

EXPLORATION: Final = 0.03
# A home node may carry a quarter more than its fair share, and always a quarter of what it takes at once.
_AFFINITY_LOAD: Final = 1.25
_AFFINITY_ROOM: Final = 4
_AFFINITY_STEPS: Final = 16
_REMOTE_FACTOR: Final = 1.1
_REMOTE_S: Final = 0.005
_MIN_TRUST: Final = 0.05
_LOOK_AT_ALL: Final = 4
_MANY: Final = 16
_DRAWS: Final = 12
_SATURATED_S: Final = 0.05
_PUBLIC: Final = 0


class OwnTunnel(Protocol):
    """What routing asks of a tunnel."""

    @property
    def ready_models(self) -> Mapping[str, int]:
        """The models the agent says are ready, each with how many requests it takes at once."""


class Tunnels(Protocol):
    """What routing asks of the tunnel hub."""

    def local(self, node_id: int) -> OwnTunnel | None:
        """Return this process's own tunnel."""

    def is_reachable(self, node: NodeEntry) -> bool:
        """Return whether a request could be sent now."""


@dataclass(slots=True, eq=False)
class Choice:
    """The chosen node, its ticket, what the organization pays there, and why."""

    node: NodeEntry
    ticket: Ticket
    price: PriceEntry
    routing: dict[str, Any]


class Router:
    """Chooses nodes for this process and keeps what it has seen of them."""

    def __init__(self, *, tunnels: Tunnels, clock: Callable[[], float], chance: random.Random | None = None) -> None:
        self._tunnels = tunnels
        self._clock = clock
        self._chance = chance or random.Random()  # noqa: S311  balancing, not secrecy
        self._loads: dict[int, NodeLoad] = {}
        self._running: Counter[int] = Counter()
        self._views: dict[tuple[int, int], NodeView] = {}
        self._saturated: dict[int, dict[tuple[object, ...], tuple[float, NoCapacity]]] = {}
        self._listeners: list[Callable[[Ticket], bool]] = []

    def load(self, node_id: int) -> NodeLoad:
        """Return what is known of the node."""
        load = self._loads.get(node_id)
        if load is None:
            load = self._loads[node_id] = NodeLoad()
        return load

    def on_leave(self, listener: Callable[[Ticket], bool]) -> None:
        """Call `listener(ticket)` for each place that was given back; it says whether it has given it on."""
        self._listeners.append(listener)

    def has_room_again(self, model_id: int) -> None:
        """Forget that a model's nodes were all full."""
        self._saturated.pop(model_id, None)

    def choose(self, wanted: Wanted, snapshot: Snapshot, *, tried: set[int]) -> Choice:
        """Return the node for the next attempt. Raises NoCapacity with the reason."""
        now = self._clock()
        known = self._known_saturation(wanted, tried, now)
        if known is not None:
            raise known
        searches: list[Search] = []
        for view in self._seen(wanted, snapshot):
            search = Search(wanted, tried, now, view.allowed(wanted))
            picked = self._pick(search)
            if picked is not None:
                return self._take(search, *picked, before=searches)
            searches.append(search)
        raise self._no_capacity(wanted, searches, tried, now)

    def try_node(self, node: NodeEntry, wanted: Wanted, snapshot: Snapshot, *, tried: set[int]) -> Choice | None:
        """Return a place on this very node, None where the request may not or cannot have one."""
        if node.id in tried or wanted.model.id not in node.models or not node.is_routable:
            return None
        owner = wanted.key.organization_id if node.is_private else _PUBLIC
        view = self._view(owner, wanted.model.id, snapshot)
        if node.is_private and (view.private is None or node.id not in view.private):
            return None
        if not node.is_private and wanted.key.policy.is_private_only:
            return None
        search = Search(wanted, tried, self._clock(), view.allowed(wanted))
        if policy_refusal(node, wanted) or self._refusal(node, search):
            return None
        return self._take(search, node, {"by": "waited", "predicted_ms": self._score_ms(node, wanted)})

    def _seen(self, wanted: Wanted, snapshot: Snapshot) -> Iterator[NodeView]:
        key, model_id = wanted.key, wanted.model.id
        if snapshot.private_nodes and (key.organization_id, model_id) in snapshot.private_nodes:
            yield self._view(key.organization_id, model_id, snapshot)
        if not key.policy.is_private_only:
            yield self._view(_PUBLIC, model_id, snapshot)

    def _view(self, owner: int, model_id: int, snapshot: Snapshot) -> NodeView:
        """Return the nodes that the organization, or with _PUBLIC everybody, sees."""
        source: Sequence[NodeEntry] | Sequence[PrivateNode] = (
            snapshot.nodes_by_model.get(model_id, ())
            if owner == _PUBLIC
            else snapshot.private_nodes.get((owner, model_id), ())
        )
        view = self._views.get((owner, model_id))
        if view is None or view.source is not source:
            view = self._views[owner, model_id] = NodeView(source, is_private=owner != _PUBLIC)
        return view

    def _take(self, search: Search, node: NodeEntry, why: dict[str, Any], *, before: Sequence[Search] = ()) -> Choice:
        wanted, private = search.wanted, search.allowed.private
        why |= {"nodes": len(search.allowed.nodes), "refused": search.all_refused, "node": node.public_id}
        why["is_local"] = self._tunnels.local(node.id) is not None
        why["pool"] = "public" if private is None else "private"
        if before:
            why["private_refused"] = before[0].all_refused
        price = wanted.price
        if private is not None:
            price = private_price(private[node.id], wanted.price, at=wanted.at) or price
        self._running[wanted.model.id] += 1
        ticket = Ticket(
            self.load(node.id),
            node_id=node.id,
            model_id=wanted.model.id,
            tokens=wanted.tokens,
            on_leave=self._left,
        )
        return Choice(node=node, ticket=ticket, price=price, routing=why)

    def _left(self, ticket: Ticket) -> None:
        self._running[ticket.model_id] -= 1
        is_taken = False
        for listener in self._listeners:
            is_taken = listener(ticket) or is_taken
        if not is_taken:
            self.has_room_again(ticket.model_id)

    def _pick(self, search: Search) -> tuple[NodeEntry, dict[str, Any]] | None:
        nodes, wanted = search.allowed, search.wanted
        known: list[NodeEntry] | None = None
        if len(nodes.nodes) <= _LOOK_AT_ALL:
            known = self._scan(search)
            if not known:
                return None
            if len(known) == 1:
                return known[0], {"by": "only", "candidates": 1, "predicted_ms": self._score_ms(known[0], wanted)}
        # A named session stays where it is; what only shares a prefix may help to learn a node's speed.
        home = self._home(search, known) if wanted.is_session else None
        special = home or self._explored(search, known) or self._home(search, known)
        if special is not None:
            return special
        candidates = known if known is not None else self._draw(search)
        if not candidates:
            candidates = self._scan(search)
        if not candidates:
            return None
        return self._sooner(candidates, search, is_drawn=known is None)

    def _sooner(
        self, candidates: list[NodeEntry], search: Search, *, is_drawn: bool
    ) -> tuple[NodeEntry, dict[str, Any]]:
        wanted = search.wanted
        if len(candidates) == 1:
            return candidates[0], {"by": "only", "predicted_ms": self._score_ms(candidates[0], wanted)}
        first, second = candidates if len(candidates) == 2 else self._chance.sample(candidates, 2)  # noqa: PLR2004  a pair
        first_ms, second_ms = self._score_ms(first, wanted), self._score_ms(second, wanted)
        best, other = (first, second) if first_ms <= second_ms else (second, first)
        why: dict[str, Any] = {"by": "two_choices", "predicted_ms": min(first_ms, second_ms)}
        why["against"] = {"node": other.public_id, "predicted_ms": max(first_ms, second_ms)}
        if not is_drawn:
            why["candidates"] = len(candidates)
        return best, why

    def _explored(self, search: Search, known: list[NodeEntry] | None) -> tuple[NodeEntry, dict[str, Any]] | None:
        """Give a node that is hardly known a small part of the requests, so that its speed is learned."""
        if self._chance.random() >= EXPLORATION:
            return None
        nodes = search.allowed
        if nodes.unexplored is None:
            nodes.unexplored = [node for node in nodes.nodes if not self.load(node.id).is_explored]
        waiting = nodes.unexplored
        for _ in range(_DRAWS):
            if not waiting:
                return None
            place = self._chance.randrange(len(waiting))
            node = waiting[place]
            if self.load(node.id).is_explored:
                waiting[place] = waiting[-1]
                waiting.pop()
            elif self._is_eligible(node, search, known):
                return node, {"by": "exploration", "predicted_ms": self._score_ms(node, search.wanted)}
        return None

    def _home(self, search: Search, known: list[NodeEntry] | None) -> tuple[NodeEntry, dict[str, Any]] | None:
        """Return the node where the session or prefix is at home, or the next on the ring that may take it."""
        wanted, nodes = search.wanted, search.allowed
        if wanted.affinity is None or not nodes.nodes:
            return None
        if nodes.ring is None:
            nodes.ring = NodeRing(nodes.nodes)
        for node in nodes.ring.walk(wanted.affinity, _AFFINITY_STEPS):
            if self._has_room_for_affinity(node, search) and self._is_eligible(node, search, known):
                by = "session" if wanted.is_session else "affinity"
                return node, {"by": by, "predicted_ms": self._score_ms(node, wanted)}
        return None

    def _has_room_for_affinity(self, node: NodeEntry, search: Search) -> bool:
        """Bounded load: a home that carries much more than its share lets the next one help."""
        model_id = search.wanted.model.id
        limit = node.models.get(model_id, 0)
        fair = (self._running[model_id] + 1) * limit / max(search.allowed.limit, 1)
        bound = max(limit // _AFFINITY_ROOM, ceil(fair * _AFFINITY_LOAD))
        return self.load(node.id).running.get(model_id, 0) < bound

    def _is_eligible(self, node: NodeEntry, search: Search, known: list[NodeEntry] | None) -> bool:
        if known is None:
            return not self._refusal(node, search)
        return any(node is one for one in known)

    def _draw(self, search: Search) -> list[NodeEntry]:
        """Return two nodes that could serve, or fewer where a handful of draws did not find them."""
        nodes = search.allowed.nodes
        found: list[NodeEntry] = []
        for _ in range(_DRAWS):
            node = nodes[int(self._chance.random() * len(nodes))]
            if found and node is found[0]:
                continue
            reason = self._refusal(node, search)
            if reason:
                search.refuse(reason)
                continue
            found.append(node)
            if len(found) == 2:  # noqa: PLR2004  a pair
                break
        return found

    def _scan(self, search: Search) -> list[NodeEntry]:
        """Return all nodes that could serve, and count why the others cannot."""
        search.refused.clear()
        found: list[NodeEntry] = []
        for node in search.allowed.nodes:
            reason = self._refusal(node, search)
            if not reason:
                found.append(node)
                continue
            search.refuse(reason)
            if reason in {"busy", "breaker"}:
                frees_in_s = self.load(node.id).breaker.frees_in_s(search.now)
                search.soonest_s = frees_in_s if search.soonest_s is None else min(search.soonest_s, frees_in_s)
        return found

    def _refusal(self, node: NodeEntry, search: Search) -> str:
        reason = request_refusal(node, search)
        if reason:
            return reason
        model = search.wanted.model
        tunnel = self._tunnels.local(node.id)
        if tunnel is None:
            if not self._tunnels.is_reachable(node):
                return "tunnel"
            limit = node.models.get(model.id, 0)
        elif model.public_id in tunnel.ready_models:
            limit = min(node.models.get(model.id, 0), tunnel.ready_models[model.public_id])
        else:
            return "not_ready"
        load = self.load(node.id)
        blocked = load.breaker.blocks(search.now)
        if blocked:
            return blocked
        return "full" if load.running.get(model.id, 0) >= limit else ""

    def _score_ms(self, node: NodeEntry, wanted: Wanted) -> int:
        seconds = self.load(node.id).predicted_s(wanted.tokens)
        if self._tunnels.local(node.id) is None:
            seconds = seconds * _REMOTE_FACTOR + _REMOTE_S
        return round(seconds * 1_000 / max(node.trust_weight, _MIN_TRUST))

    def _known_saturation(self, wanted: Wanted, tried: set[int], now: float) -> NoCapacity | None:
        """Return the refusal that was just found by looking at many nodes, while no place has come free since."""
        marks = self._saturated.get(wanted.model.id)
        if not marks or tried:
            return None
        until, error = marks.get(wanted.signature, (0.0, None))
        if error is None or now >= until:
            return None
        return NoCapacity(wanted.model, error.refused, soonest_s=error.soonest_s)

    def _no_capacity(self, wanted: Wanted, searches: list[Search], tried: set[int], now: float) -> NoCapacity:
        refused: Counter[str] = Counter()
        for search in searches:
            refused.update(search.all_refused)
        if wanted.key.policy.is_private_only and not refused:
            refused["private"] = 1
        known = [search.soonest_s for search in searches if search.soonest_s is not None]
        error = NoCapacity(wanted.model, refused, soonest_s=min(known, default=None))
        if error.may_wait and not tried and sum(refused.values()) > _MANY:
            marks = self._saturated.setdefault(wanted.model.id, {})
            marks[wanted.signature] = (now + _SATURATED_S, error)
        return error
