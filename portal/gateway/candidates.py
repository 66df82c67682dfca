"""What a request wants of a node, the nodes it sees, and why it may not use one of them, whatever that one's state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from portal.billing.rules.price_choice import in_force, payable
from portal.gateway.affinity import NodeRing
from portal.gateway.contracts import KeyEntry, ModelEntry, NodeEntry, PriceEntry, PrivateNode, Snapshot

TOOL_CLASSES: Final = frozenset({"house", "contracted"})
_KEPT_TERMS: Final = 256


@dataclass(slots=True, eq=False)
class Wanted:
    """What the request needs of a node. `price` is what the pool asks of its organization, `at` the moment of it."""

    key: KeyEntry
    model: ModelEntry
    price: PriceEntry
    at: float
    has_tools: bool
    tokens: int
    affinity: bytes | None
    is_session: bool = False

    @property
    def needs_trusted_class(self) -> bool:
        """Whether only nodes of known people may serve it: a node can forge a tool call."""
        return self.has_tools and not self.key.tools_on_any_class

    @property
    def terms(self) -> tuple[object, ...]:
        """Return what decides which nodes policy allows."""
        return self.key.node_classes, self.key.policy.countries, self.has_tools and not self.key.tools_on_any_class

    @property
    def signature(self) -> tuple[object, ...]:
        """Return what requests must have in common for one refusal to hold for all."""
        return self.key.organization_id, self.key.policy.is_private_only, self.terms


class AllowedNodes:
    """The nodes of a view that requests of one kind may use by policy; what varies is looked at when they are drawn."""

    __slots__ = ("limit", "nodes", "private", "refused", "ring", "unexplored")

    def __init__(self, view: "NodeView", wanted: Wanted) -> None:
        self.private = view.private
        self.nodes: list[NodeEntry] = []
        self.refused: dict[str, int] = {}
        for node in view.nodes:
            reason = policy_refusal(node, wanted)
            if reason:
                self.refused[reason] = self.refused.get(reason, 0) + 1
            else:
                self.nodes.append(node)
        self.limit = sum(node.models.get(wanted.model.id, 0) for node in self.nodes)
        self.ring: NodeRing | None = None
        self.unexplored: list[NodeEntry] | None = None


class NodeView:
    """The nodes of one model as one organization, or everybody, sees them; made anew with each snapshot."""

    __slots__ = ("_allowed", "nodes", "private", "source")

    def __init__(self, source: Sequence[NodeEntry] | Sequence[PrivateNode], *, is_private: bool) -> None:
        self.source = source
        self.private: dict[int, PrivateNode] | None = None
        self.nodes = [row for row in source if isinstance(row, NodeEntry)]
        if is_private:
            self.private = {row.node.id: row for row in source if isinstance(row, PrivateNode)}
            self.nodes = [row.node for row in self.private.values()]
        self._allowed: dict[tuple[object, ...], AllowedNodes] = {}

    def allowed(self, wanted: Wanted) -> AllowedNodes:
        """Return the nodes that the key's policy lets the request use."""
        terms = wanted.terms
        found = self._allowed.get(terms)
        if found is None:
            if len(self._allowed) >= _KEPT_TERMS:
                self._allowed.clear()
            found = self._allowed[terms] = AllowedNodes(self, wanted)
        return found


@dataclass(slots=True, eq=False)
class Search:
    """One look for a node: what is wanted, what was refused on the way and why."""

    wanted: Wanted
    tried: set[int]
    now: float
    allowed: AllowedNodes
    refused: dict[str, int] = field(default_factory=dict)
    soonest_s: float | None = None

    def refuse(self, reason: str) -> None:
        """Count a node that cannot serve."""
        self.refused[reason] = self.refused.get(reason, 0) + 1

    @property
    def all_refused(self) -> dict[str, int]:
        """Return how many nodes were refused for which reason, those among them that policy leaves out."""
        counts = dict(self.allowed.refused)
        for reason, count in self.refused.items():
            counts[reason] = counts.get(reason, 0) + count
        return counts


def policy_refusal(node: NodeEntry, wanted: Wanted) -> str:
    """Return why requests on these terms may not use the node, whatever its state."""
    key = wanted.key
    if node.node_class not in key.node_classes:
        return "class"
    if key.policy.countries is not None and node.country not in key.policy.countries:
        return "region"
    if wanted.needs_trusted_class and node.node_class not in TOOL_CLASSES:
        return "tools"
    return "trust" if node.trust_weight <= 0 else ""


def request_refusal(node: NodeEntry, search: Search) -> str:
    """Return why this very request may not use the node."""
    wanted = search.wanted
    if node.organization_id == wanted.key.organization_id:
        return "own"
    if node.id in search.tried:
        return "tried"
    private = search.allowed.private
    if private is not None and private_price(private[node.id], wanted.price, at=wanted.at) is None:
        return "price"
    return ""


def private_price(row: PrivateNode, usual: PriceEntry, *, at: float) -> PriceEntry | None:
    """Return what the organization pays on its private node at `at`; None where it has not accepted that price."""
    asked = in_force(row.prices, at=at)
    if asked is not None and asked.id in row.unaccepted:
        return None
    return payable(public=usual, node=asked)


def usual_price(public: PriceEntry, *, key: KeyEntry, model: ModelEntry, snapshot: Snapshot, at: float) -> PriceEntry:
    """Return what the key's organization pays in the public pool at `at`: what was agreed with it, else `public`."""
    agreed = snapshot.own_prices.get((key.organization_id, model.id)) if snapshot.own_prices else None
    return public if agreed is None else payable(public=public, own=in_force(agreed, at=at))


def possible_prices(
    *, key: KeyEntry, model: ModelEntry, usual: PriceEntry, snapshot: Snapshot, at: float
) -> list[PriceEntry]:
    """Return every price that a request of the key may be routed at; its hold covers the dearest."""
    prices = [] if key.policy.is_private_only else [usual]
    for row in snapshot.private_nodes.get((key.organization_id, model.id), ()):
        price = private_price(row, usual, at=at)
        if price is not None and price not in prices:
            prices.append(price)
    return prices or [usual]
