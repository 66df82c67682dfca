"""Which node serves a request: filters first, then the sooner of two, explainable afterwards."""

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from portal.gateway.contracts import KeyEntry, ModelEntry, NodeEntry, Snapshot
from portal.gateway.errors import ApiError, unavailable
from portal.gateway.load import NodeLoad, Ticket

TOOL_CLASSES: Final = frozenset({"house", "contracted"})
EXPLORATION: Final = 0.03
_EXPLORED_SAMPLES: Final = 20
_AFFINITY_LOAD: Final = 1.25
_REMOTE_FACTOR: Final = 1.1
_REMOTE_S: Final = 0.005
_MIN_TRUST: Final = 0.05
_PREFIX_CHARS: Final = 1_024

_REASONS: Final = {
    "own": ("the only nodes that run it belong to your own organization", 60.0),
    "class": ("no node of the classes this key allows runs it", 30.0),
    "tools": ("no house or contracted node, which tools need unless the key says otherwise, runs it", 30.0),
    "tunnel": ("its nodes are not connected", 5.0),
    "not_ready": ("its nodes are starting", 5.0),
    "trust": ("its nodes are not trusted now", 60.0),
    "breaker": ("its nodes have failed and are being probed", 5.0),
    "busy": ("its nodes are busy", 1.0),
    "full": ("its nodes are full", 1.0),
    "tried": ("every node that could serve it has been tried", 1.0),
}


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


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the request needs of a node."""

    key: KeyEntry
    model: ModelEntry
    has_tools: bool
    tokens: int
    affinity: bytes | None


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen node, its ticket and why."""

    node: NodeEntry
    ticket: Ticket
    routing: dict[str, Any]


def affinity_key(key: KeyEntry, messages: list[dict[str, Any]]) -> bytes | None:
    """Return what requests that share a prefix have in common; None for a prompt too short to be worth caching."""
    head = "\n".join(row["content"] or "" for row in messages[:2])[:_PREFIX_CHARS]
    if len(head) < _PREFIX_CHARS:
        return None
    return hashlib.blake2b(f"{key.organization_id}\n{head}".encode(), digest_size=16).digest()


class Router:
    """Chooses nodes for this process and keeps what it has seen of them."""

    def __init__(self, *, tunnels: Tunnels, clock: Callable[[], float], chance: random.Random | None = None) -> None:
        self._tunnels = tunnels
        self._clock = clock
        self._chance = chance or random.Random()  # noqa: S311  balancing, not secrecy
        self._loads: dict[int, NodeLoad] = {}

    def load(self, node_id: int) -> NodeLoad:
        """Return what is known of the node."""
        load = self._loads.get(node_id)
        if load is None:
            load = self._loads[node_id] = NodeLoad()
        return load

    def choose(self, wanted: Wanted, snapshot: Snapshot, *, tried: set[int]) -> Choice:
        """Return the node for the next attempt. Raises ApiError no_capacity with the reason."""
        refused: Counter[str] = Counter()
        candidates: list[NodeEntry] = []
        now = self._clock()
        for node in snapshot.nodes_by_model.get(wanted.model.id, ()):
            reason = "tried" if node.id in tried else self._refusal(node, wanted, now)
            if reason:
                refused[reason] += 1
            else:
                candidates.append(node)
        if not candidates:
            raise _no_capacity(wanted.model, refused)
        node, why = self._pick(candidates, wanted)
        why |= {"candidates": len(candidates), "refused": dict(refused), "node": node.public_id}
        why["is_local"] = self._tunnels.local(node.id) is not None
        return Choice(node=node, ticket=Ticket(self.load(node.id), wanted.model.id, wanted.tokens), routing=why)

    def _refusal(self, node: NodeEntry, wanted: Wanted, now: float) -> str:
        if node.organization_id == wanted.key.organization_id:
            return "own"
        if node.node_class not in wanted.key.node_classes:
            return "class"
        if wanted.has_tools and node.node_class not in TOOL_CLASSES and not wanted.key.tools_on_any_class:
            return "tools"
        if node.trust_weight <= 0:
            return "trust"
        if not self._tunnels.is_reachable(node):
            return "tunnel"
        return self._capacity_refusal(node, wanted.model, now)

    def _capacity_refusal(self, node: NodeEntry, model: ModelEntry, now: float) -> str:
        limit = node.models.get(model.id, 0)
        tunnel = self._tunnels.local(node.id)
        if tunnel is not None:
            if model.public_id not in tunnel.ready_models:
                return "not_ready"
            limit = min(limit, tunnel.ready_models[model.public_id])
        load = self.load(node.id)
        blocked = load.breaker.blocks(now)
        if blocked:
            return blocked
        return "full" if load.running.get(model.id, 0) >= limit else ""

    def _pick(self, candidates: list[NodeEntry], wanted: Wanted) -> tuple[NodeEntry, dict[str, Any]]:
        if len(candidates) == 1:
            return candidates[0], {"by": "only", "predicted_ms": self._score_ms(candidates[0], wanted)}
        new = [node for node in candidates if self.load(node.id).samples < _EXPLORED_SAMPLES]
        if new and self._chance.random() < EXPLORATION:
            node = self._chance.choice(new)
            return node, {"by": "exploration", "predicted_ms": self._score_ms(node, wanted)}
        home = _home(candidates, wanted.affinity)
        if home is not None and self._has_room_for_affinity(home, candidates):
            return home, {"by": "affinity", "predicted_ms": self._score_ms(home, wanted)}
        first, second = self._chance.sample(candidates, 2)
        scores = {node.id: self._score_ms(node, wanted) for node in (first, second)}
        best, other = (first, second) if scores[first.id] <= scores[second.id] else (second, first)
        against = {"node": other.public_id, "predicted_ms": scores[other.id]}
        return best, {"by": "two_choices", "predicted_ms": scores[best.id], "against": against}

    def _score_ms(self, node: NodeEntry, wanted: Wanted) -> int:
        seconds = self.load(node.id).predicted_s(wanted.tokens)
        if self._tunnels.local(node.id) is None:
            seconds = seconds * _REMOTE_FACTOR + _REMOTE_S
        return round(seconds * 1000 / max(node.trust_weight, _MIN_TRUST))

    def _has_room_for_affinity(self, home: NodeEntry, candidates: list[NodeEntry]) -> bool:
        """Bounded load: the home node may carry a quarter more than its fair share by speed."""
        tokens = sum(self.load(node.id).tokens for node in candidates)
        speed = sum(self.load(node.id).tokens_per_s for node in candidates)
        load = self.load(home.id)
        fair = tokens * load.tokens_per_s / max(speed, 1e-9)
        return load.tokens <= fair * _AFFINITY_LOAD


def _home(candidates: list[NodeEntry], affinity: bytes | None) -> NodeEntry | None:
    """Rendezvous hashing: the same prefix finds the same node while the node is a candidate."""
    if affinity is None:
        return None
    return max(candidates, key=lambda node: hashlib.blake2b(affinity + b"%d" % node.id, digest_size=8).digest())


def _no_capacity(model: ModelEntry, refused: Counter[str]) -> ApiError:
    for reason in ("full", "busy", "breaker", "not_ready", "tunnel", "tools", "class", "trust", "own", "tried"):
        if refused[reason]:
            text, retry_after_s = _REASONS[reason]
            return unavailable("no_capacity", f"{model.public_id}: {text}.", retry_after_s=retry_after_s)
    message = f"{model.public_id}: no node runs it now."
    return unavailable("no_capacity", message, retry_after_s=30.0)
