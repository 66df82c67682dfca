"""Records what gateways saw of nodes against the rules: one row a node, rule and hour, however often it happens."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import connection, transaction

from portal.integrations import bus
from portal.nodes.models import Node
from portal.trust.models import NodeEvidence
from portal.trust.rules import evidence

_ADD = """
    INSERT INTO trust_nodeevidence AS known
        (node_id, rule, hour, count, first_at, last_at, detail, sample, request_id, attempt)
    VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
    ON CONFLICT (node_id, rule, hour) DO UPDATE SET
        count = known.count + excluded.count,
        first_at = least(known.first_at, excluded.first_at),
        last_at = greatest(known.last_at, excluded.last_at)
"""


@dataclass(frozen=True, slots=True)
class Incident:
    """What one node did against one rule, `count` times between `first_at` and `last_at`; the facts are the first's."""

    node_id: int
    rule: str
    count: int
    first_at: datetime
    last_at: datetime
    detail: str = ""
    sample: str = ""
    request_id: UUID | None = None
    attempt: int | None = None


def record(*, incidents: Sequence[Incident]) -> int:
    """Add incidents of nodes that exist; return how many rows they touched."""
    with transaction.atomic():
        names = dict(Node.objects.filter(pk__in={row.node_id for row in incidents}).values_list("pk", "public_id"))
        known = sorted(
            (row for row in incidents if row.node_id in names), key=lambda row: (row.node_id, row.rule, row.first_at)
        )
        with connection.cursor() as cursor:
            cursor.executemany(_ADD, [_columns(row) for row in known])
        for node_id in sorted({row.node_id for row in known if row.rule in evidence.HOSTILE}):
            bus.announce("trust", names[node_id])
    return len(known)


def forget(*, now: datetime) -> int:
    """Delete evidence that is too old to matter; return how many rows went."""
    return NodeEvidence.objects.filter(hour__lt=now - evidence.KEPT_FOR).delete()[0]


def _columns(row: Incident) -> tuple[int | str | datetime | UUID | None, ...]:
    return (
        row.node_id,
        row.rule[:40],
        evidence.hour_of(row.first_at),
        row.count,
        row.first_at,
        row.last_at,
        row.detail[: evidence.MAX_DETAIL],
        row.sample[: evidence.MAX_SAMPLE_BYTES],
        row.request_id,
        row.attempt,
    )
