"""What house nodes cost by the hour, as the operator has said from when on."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import Min, Q, QuerySet

from portal.nodes.models import HouseCost, Node, NodeState
from portal.nodes.rules.house_costs import Rate
from portal.providers.models import ProviderKind


@dataclass(frozen=True, slots=True)
class HouseNode:
    """A node of the operator's own, how long it was there, and its rates in the order in which they hold."""

    node_id: int
    public_id: str
    name: str
    since: datetime
    until: datetime | None
    rates: tuple[Rate, ...]


def cost_at(*, node: Node, at: datetime) -> int:
    """Return what an hour of the node costs at `at`; 0 where nothing was ever said."""
    row = HouseCost.objects.filter(node=node, effective_from__lte=at).first()
    return row.nano_per_hour if row else 0


def cost_history(*, node: Node, limit: int = 20) -> QuerySet[HouseCost]:
    """Return what was said of the node's cost, newest first."""
    return HouseCost.objects.filter(node=node)[:limit]


def house_nodes(*, limit: int = 2000) -> list[HouseNode]:
    """Return the nodes of house providers that have a cost, the retired ones too."""
    rates: dict[int, list[Rate]] = {}
    for row in HouseCost.objects.order_by("node_id", "effective_from", "id"):
        rates.setdefault(row.node_id, []).append(Rate(row.effective_from, row.nano_per_hour))
    retired = Min("events__at", filter=Q(events__to_state=NodeState.RETIRED))
    rows = Node.objects.filter(pk__in=rates, provider__kind=ProviderKind.HOUSE).annotate(retired_at=retired)
    return [
        HouseNode(row.pk, row.public_id, row.name, row.enrolled_at, row.retired_at, tuple(rates[row.pk]))
        for row in rows.order_by("pk")[:limit]
    ]
