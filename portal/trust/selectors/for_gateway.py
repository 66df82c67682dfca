"""What the gateway's snapshot needs of trust: who lost the tolerance, and each node's weight in routing."""

from dataclasses import dataclass, field

from django.db import connection

from portal.trust.models import TokenBias
from portal.trust.rules import bias

_DIGEST = """
    SELECT coalesce(sum(hashtextextended(concat_ws('|', has_tolerance, counted_completion_tokens >= %s), id)), 0)
    FROM trust_tokenbias
"""
UNKNOWN_WEIGHT = bias.weight(has_tolerance=True, is_measured=False)


@dataclass(slots=True)
class Standing:
    """One node's standing."""

    weight: float = UNKNOWN_WEIGHT
    models_without_tolerance: set[int] = field(default_factory=set)


def standings_digest() -> str:
    """Return a text that differs whenever a standing changed."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST, [bias.MEASURED_TOKENS])
        return str(cursor.fetchone()[0])


def standings() -> dict[int, Standing]:
    """Return by node id the standing of the nodes of which anything was counted."""
    found: dict[int, Standing] = {}
    for row in TokenBias.objects.order_by("id"):
        own = bias.weight(
            has_tolerance=row.has_tolerance, is_measured=row.counted_completion_tokens >= bias.MEASURED_TOKENS
        )
        standing = found.setdefault(row.node_id, Standing(weight=own))
        standing.weight = min(standing.weight, own)
        if not row.has_tolerance:
            standing.models_without_tolerance.add(row.model_id)
    return found
