"""What the gateway's snapshot needs of trust: who lost the tolerance, and each node's weight in routing."""

from dataclasses import dataclass, field
from datetime import datetime

from django.db import connection

from portal.trust.models import CacheAudit, EngineAudit, TokenBias
from portal.trust.rules import bias
from portal.trust.selectors import evidence

_DIGEST = """
    SELECT (SELECT coalesce(sum(hashtextextended(
            concat_ws('|', has_tolerance, counted_completion_tokens >= %s), id)), 0) FROM trust_tokenbias)
        || ':' || (SELECT coalesce(sum(hashtextextended('', id)), 0) FROM trust_engineaudit WHERE is_exceeded)
        || ':' || (SELECT coalesce(sum(hashtextextended('', id)), 0) FROM trust_cacheaudit WHERE hides_cache)
"""
UNKNOWN_WEIGHT = bias.weight(has_tolerance=True, is_measured=False)


@dataclass(slots=True)
class Standing:
    """One node's standing."""

    weight: float = UNKNOWN_WEIGHT
    models_without_tolerance: set[int] = field(default_factory=set)
    models_with_hidden_cache: set[int] = field(default_factory=set)


def standings_digest(*, now: datetime) -> str:
    """Return a text that differs whenever a standing changed."""
    with connection.cursor() as cursor:
        cursor.execute(_DIGEST, [bias.MEASURED_TOKENS])
        return f"{cursor.fetchone()[0]} {sorted(evidence.distrusted(now=now))}"


def standings(*, now: datetime) -> dict[int, Standing]:
    """Return by node id the standing of the nodes of which anything was counted, or against which evidence weighs."""
    found: dict[int, Standing] = {}
    for row in TokenBias.objects.order_by("id"):
        own = bias.weight(
            has_tolerance=row.has_tolerance, is_measured=row.counted_completion_tokens >= bias.MEASURED_TOKENS
        )
        standing = found.setdefault(row.node_id, Standing(weight=own))
        standing.weight = min(standing.weight, own)
        if not row.has_tolerance:
            standing.models_without_tolerance.add(row.model_id)
    for node_id, model_id in EngineAudit.objects.filter(is_exceeded=True).values_list("node_id", "model_id"):
        standing = found.setdefault(node_id, Standing())
        standing.weight = min(standing.weight, bias.DISTRUSTED_WEIGHT)
        standing.models_without_tolerance.add(model_id)
    for node_id, model_id in CacheAudit.objects.filter(hides_cache=True).values_list("node_id", "model_id"):
        found.setdefault(node_id, Standing()).models_with_hidden_cache.add(model_id)
    for node_id in evidence.distrusted(now=now):
        standing = found.setdefault(node_id, Standing())
        standing.weight = min(standing.weight, bias.DISTRUSTED_WEIGHT)
    return found
