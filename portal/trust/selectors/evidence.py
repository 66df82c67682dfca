"""Evidence against nodes, as the pages of the operator and of the provider show it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Count

from portal.nodes.models import Node
from portal.nodes.selectors.rows import Explained, explained
from portal.trust.models import NodeEvidence
from portal.trust.rules import evidence

_SHOWN = 30


@dataclass(frozen=True, slots=True)
class EvidenceRow:
    """One rule in one hour. `detail`, `sample` and `request_id` are for the operator; a provider's row has none."""

    what: Explained
    count: int
    first_at: datetime
    last_at: datetime
    weighs: bool
    detail: str = ""
    sample: str = ""
    request_id: UUID | None = None
    attempt: int | None = None


def evidence_of(*, node: Node, with_facts: bool, limit: int = _SHOWN) -> list[EvidenceRow]:
    """Return the node's newest evidence; without facts what the catalogue says of each rule, and how often it was."""
    rows = NodeEvidence.objects.filter(node=node).order_by("-last_at", "-id")[:limit]
    return [_row(row, with_facts=with_facts) for row in rows]


def distrusted(*, now: datetime) -> frozenset[int]:
    """Return the ids of the nodes whose evidence of the last day lowers their weight in routing."""
    since = evidence.hour_of(now - evidence.WEIGHS_FOR)
    rows = (
        NodeEvidence.objects.filter(hour__gte=since, rule__in=evidence.HOSTILE)
        .values("node_id")
        .annotate(hours=Count("id"))
        .order_by("node_id")
    )
    return frozenset(row["node_id"] for row in rows if evidence.is_distrusted(hostile_hours=row["hours"]))


def hostile_hours(*, providers: Iterable[int], since: datetime) -> dict[int, int]:
    """Return of each of these providers in how many hours since then its nodes broke hostile rules, where any did."""
    rows = (
        NodeEvidence.objects.filter(
            node__provider__in=set(providers), hour__gte=evidence.hour_of(since), rule__in=evidence.HOSTILE
        )
        .values("node__provider_id")
        .annotate(hours=Count("id"))
        .order_by("node__provider_id")
    )
    return {row["node__provider_id"]: row["hours"] for row in rows}


def _row(row: NodeEvidence, *, with_facts: bool) -> EvidenceRow:
    shown = EvidenceRow(
        what=explained(row.rule),
        count=row.count,
        first_at=row.first_at,
        last_at=row.last_at,
        weighs=row.rule in evidence.HOSTILE,
    )
    if not with_facts:
        return shown
    return EvidenceRow(
        what=shown.what,
        count=shown.count,
        first_at=shown.first_at,
        last_at=shown.last_at,
        weighs=shown.weighs,
        detail=row.detail,
        sample=row.sample,
        request_id=row.request_id,
        attempt=row.attempt,
    )
