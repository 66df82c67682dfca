"""Compares what nodes claim with what we counted, record by record, each exactly once."""

from collections import defaultdict
from collections.abc import Container, Sequence
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.db.models import Sum

from portal.catalog.models import CatalogModel
from portal.metering.models import Reader
from portal.nodes.models import Node
from portal.trust import locks
from portal.trust.models import TokenBias
from portal.trust.rules import bias, cache
from portal.trust.rules.bias import Sums
from portal.trust.rules.cache import Cached
from portal.trust.rules.engine_counters import Tokens
from portal.trust.services import cache_audits, engine_audits, findings

# ARRAY, not IN: a plan may ask IN's rows more than once, and rows that are deleted meanwhile make room for others.
_TAKE = """
    WITH taken AS (
        DELETE FROM metering_usagequeue WHERE id = ANY(ARRAY(
            SELECT id FROM metering_usagequeue WHERE reader = %s ORDER BY id LIMIT %s FOR UPDATE SKIP LOCKED
        )) RETURNING opened_on, request_id, attempt
    )
    SELECT node_id, model_id, outcome = 'completed', claimed_prompt_tokens, counted_prompt_tokens,
           claimed_completion_tokens, counted_completion_tokens, charge_nano > 0, expected_cached_tokens,
           claimed_cached_tokens
    FROM taken JOIN metering_usagerecord USING (opened_on, request_id, attempt)
"""
_FIELDS = (
    "claimed_prompt_tokens",
    "counted_prompt_tokens",
    "claimed_completion_tokens",
    "counted_completion_tokens",
    "allowed_tokens",
)


def audit_usage(*, now: datetime, limit: int = 1000) -> int:
    """Take up to `limit` new usage records into the nodes' sums and judge the nodes they touch; return how many."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(_TAKE, [Reader.TRUST.value, limit])
            taken = cursor.fetchall()
        sums: dict[tuple[int, int], list[tuple[int, ...]]] = defaultdict(list)
        ends = dict(CatalogModel.objects.values_list("pk", "end_tokens"))
        for node_id, model_id, is_whole, *counts, _, _, _ in taken:
            if model_id in ends and None not in counts:
                sums[node_id, model_id].append((*counts, ends[model_id] if is_whole else 0))
        known = set(Node.objects.filter(pk__in={row[0] for row in taken}).values_list("pk", flat=True))
        _add({pair: rows for pair, rows in sums.items() if pair[0] in known}, now)
        engine_audits.add_claims(_claims(taken, nodes=known, models=ends))
        cache_audits.add(_cached(taken, nodes=known, models=ends), now=now)
    return len(taken)


def _claims(
    taken: Sequence[tuple[Any, ...]], *, nodes: Container[int], models: Container[int]
) -> dict[tuple[int, int], Tokens]:
    claims: dict[tuple[int, int], Tokens] = defaultdict(Tokens)
    for node_id, model_id, _, claimed_prompt, _, claimed_completion, _, is_charged, _, _ in taken:
        if is_charged and node_id in nodes and model_id in models:
            claims[node_id, model_id] += Tokens(claimed_prompt or 0, claimed_completion or 0)
    return claims


def _cached(
    taken: Sequence[tuple[Any, ...]], *, nodes: Container[int], models: Container[int]
) -> dict[tuple[int, int], Cached]:
    found: dict[tuple[int, int], Cached] = defaultdict(Cached)
    for node_id, model_id, *_, is_charged, expected, claimed in taken:
        if is_charged and expected and node_id in nodes and model_id in models:
            found[node_id, model_id] += cache.seen(expected=expected, claimed=claimed)
    return found


def _add(sums: dict[tuple[int, int], list[tuple[int, ...]]], now: datetime) -> None:
    TokenBias.objects.bulk_create(
        [TokenBias(node_id=node, model_id=model, updated_at=now) for node, model in sorted(sums)], ignore_conflicts=True
    )
    for row in locks.token_biases(sums):
        rows = sums[row.node_id, row.model_id]
        row.attempts += len(rows)
        for name, values in zip(_FIELDS, zip(*rows, strict=True), strict=True):
            setattr(row, name, getattr(row, name) + sum(values))
        _fade(row)
        _judge(row, now)
        row.updated_at = now
        row.save()


def _fade(row: TokenBias) -> None:
    """Halve the sums once they are large, so that what a node does now weighs more than what it did once."""
    if row.counted_completion_tokens + row.counted_prompt_tokens >= bias.FADING_TOKENS:
        for name in (*_FIELDS, "attempts"):
            setattr(row, name, getattr(row, name) // 2)


def _judge(row: TokenBias, now: datetime) -> None:
    others = TokenBias.objects.filter(model_id=row.model_id).exclude(pk=row.pk)
    sums = others.aggregate(**{name: Sum(name, default=0) for name in _FIELDS})
    exceeds = bias.exceeds_model(
        own=Sums(row.claimed_prompt_tokens, row.counted_prompt_tokens),
        others=Sums(sums["claimed_prompt_tokens"], sums["counted_prompt_tokens"]),
    ) or bias.exceeds_model(
        own=Sums(row.claimed_completion_tokens, row.counted_completion_tokens, row.allowed_tokens),
        others=Sums(sums["claimed_completion_tokens"], sums["counted_completion_tokens"], sums["allowed_tokens"]),
    )
    if row.has_tolerance is exceeds:
        row.has_tolerance = not exceeds
        row.changed_at = now
        event = "node.tolerance_kept" if row.has_tolerance else "node.tolerance_lost"
        findings.announce(row, event, {name: getattr(row, name) for name in _FIELDS}, now=now)
