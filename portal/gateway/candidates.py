"""What a request wants of a node, the nodes it sees, and why it may not use one of them, whatever that one's state."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from portal.gateway.affinity import NodeRing
from portal.gateway.contracts import KeyEntry, ModelEntry, NodeEntry, PriceEntry, PrivateNode, Snapshot

TOOL_CLASSES: Final = frozenset({"house", "contracted"})


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the request needs of a node. `price` is the public one of its model, `at` the moment that prices it."""

    key: KeyEntry
    model: ModelEntry
    price: PriceEntry
    at: float
    has_tools: bool
    tokens: int
    affinity: bytes | None
    is_session: bool = False

    @property
    def signature(self) -> tuple[object, ...]:
        """Return what requests must have in common for one refusal to hold for all."""
        key = self.key
        return key.organization_id, key.node_classes, key.policy, self.has_tools and not key.tools_on_any_class


class SeenNodes:
    """The nodes of one model as one organization, or everybody, sees them; made anew with each snapshot."""

    __slots__ = ("limit", "nodes", "private", "ring", "source", "unexplored")

    def __init__(self, source: Sequence[NodeEntry] | Sequence[PrivateNode], model_id: int, *, is_private: bool) -> None:
        self.source = source
        self.private: dict[int, PrivateNode] | None = None
        rows = [row for row in source if isinstance(row, PrivateNode)]
        self.nodes = [row for row in source if isinstance(row, NodeEntry)]
        if is_private:
            self.private = {row.node.id: row for row in rows}
            self.nodes = [row.node for row in rows]
        self.limit = sum(node.models.get(model_id, 0) for node in self.nodes)
        self.ring: NodeRing | None = None
        self.unexplored: list[NodeEntry] | None = None


@dataclass(slots=True)
class Search:
    """One look for a node: what is wanted, what was refused on the way and why."""

    wanted: Wanted
    tried: set[int]
    now: float
    nodes: SeenNodes
    refused: dict[str, int] = field(default_factory=dict)
    soonest_s: float | None = None

    def refuse(self, reason: str) -> None:
        """Count a node that cannot serve."""
        self.refused[reason] = self.refused.get(reason, 0) + 1


def policy_refusal(node: NodeEntry, search: Search) -> str:  # noqa: PLR0911  one line for each reason
    """Return why this request may not use the node, whatever its state."""
    wanted = search.wanted
    key = wanted.key
    if node.id in search.tried:
        return "tried"
    if node.organization_id == key.organization_id:
        return "own"
    if node.node_class not in key.node_classes:
        return "class"
    if key.policy.countries is not None and node.country not in key.policy.countries:
        return "region"
    if wanted.has_tools and node.node_class not in TOOL_CLASSES and not key.tools_on_any_class:
        return "tools"
    private = search.nodes.private
    if private is not None and private_price(private[node.id], wanted.price, at=wanted.at) is None:
        return "price"
    return "trust" if node.trust_weight <= 0 else ""


def private_price(row: PrivateNode, public: PriceEntry, *, at: float) -> PriceEntry | None:
    """Return what the organization pays on its private node at `at`; None where it has not accepted that price."""
    current: PriceEntry | None = None
    for price in row.prices:
        if price.effective_from <= at:
            current = price
    if current is None:
        return public
    return None if current.id in row.unaccepted else current


def possible_prices(
    *, key: KeyEntry, model: ModelEntry, public: PriceEntry, snapshot: Snapshot, at: float
) -> list[PriceEntry]:
    """Return every price that a request of the key may be routed at; its hold covers the dearest."""
    prices = [] if key.policy.is_private_only else [public]
    for row in snapshot.private_nodes.get((key.organization_id, model.id), ()):
        price = private_price(row, public, at=at)
        if price is not None and price not in prices:
            prices.append(price)
    return prices or [public]
