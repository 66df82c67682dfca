"""Compares what nodes say of their prefix caches with what was sent to them before."""

from collections.abc import Mapping
from datetime import datetime

from django.db.models import Sum

from portal.trust import locks
from portal.trust.models import CacheAudit
from portal.trust.rules import cache
from portal.trust.rules.cache import Cached
from portal.trust.services import findings


def add(seen: Mapping[tuple[int, int], Cached], *, now: datetime) -> None:
    """Add what was seen by (node, model) and judge those nodes, inside the transaction that took their records."""
    CacheAudit.objects.bulk_create(
        [CacheAudit(node_id=node, model_id=model) for node, model in sorted(seen)], ignore_conflicts=True
    )
    for row in locks.cache_audits(seen):
        part = seen[row.node_id, row.model_id]
        row.expected_tokens += part.expected
        row.claimed_tokens += part.claimed
        if row.expected_tokens >= cache.FADING_TOKENS:
            row.expected_tokens, row.claimed_tokens = row.expected_tokens // 2, row.claimed_tokens // 2
        _judge(row, now=now)
        row.save()


def _judge(row: CacheAudit, *, now: datetime) -> None:
    others = CacheAudit.objects.filter(model_id=row.model_id).exclude(pk=row.pk)
    sums = others.aggregate(expected=Sum("expected_tokens", default=0), claimed=Sum("claimed_tokens", default=0))
    hides = cache.hides_cache(
        own=Cached(row.expected_tokens, row.claimed_tokens), others=Cached(sums["expected"], sums["claimed"])
    )
    if row.hides_cache is hides:
        return
    row.hides_cache, row.changed_at = hides, now
    detail = {"expected": row.expected_tokens, "claimed": row.claimed_tokens}
    findings.announce(row, "node.cache_hidden" if hides else "node.cache_shown", detail, now=now)
