"""Compares, each minute, what nodes claim with what their engines count."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction

from portal.nodes.models import Deployment
from portal.trust import locks
from portal.trust.models import EngineAudit, EngineMinute
from portal.trust.rules import engine_counters
from portal.trust.rules.engine_counters import Tokens
from portal.trust.services import findings

KEPT: Final = timedelta(days=7)


def add_claims(claims: Mapping[tuple[int, int], Tokens]) -> None:
    """Add claimed tokens by (node, model), inside the transaction that took their records from the queue."""
    EngineAudit.objects.bulk_create(
        [EngineAudit(node_id=node, model_id=model) for node, model in sorted(claims)], ignore_conflicts=True
    )
    for row in locks.engine_audits(claims):
        claimed = claims[row.node_id, row.model_id]
        row.claimed_prompt_tokens += claimed.prompt
        row.claimed_completion_tokens += claimed.generation
        row.save(update_fields=["claimed_prompt_tokens", "claimed_completion_tokens"])


def read_engines(*, now: datetime) -> int:
    """Read the counters that the nodes reported last, judge each node and keep the minute; return how many."""
    reported = {
        (row.node_id, row.model_id): row
        for row in Deployment.objects.filter(observed_at__isnull=False).select_related("node")
    }
    with transaction.atomic():
        rows = locks.engine_audits(reported)
        for row in rows:
            deployment = reported[row.node_id, row.model_id]
            if row.read_at is None or deployment.observed_at is None or deployment.observed_at > row.read_at:
                _read(row, engine_counters.read(deployment.counters), now=now)
        return len(rows)


def forget_old_minutes(*, now: datetime) -> int:
    """Delete the minutes nobody looks at any more; return how many."""
    return EngineMinute.objects.filter(minute__lt=now - KEPT).delete()[0]


def _read(row: EngineAudit, counters: Tokens | None, *, now: datetime) -> None:
    gained = _advance(row, counters)
    claimed = Tokens(
        row.claimed_prompt_tokens - row.settled_prompt_tokens,
        row.claimed_completion_tokens - row.settled_completion_tokens,
    )
    if gained is not None:
        _judge(row, now=now)
    EngineMinute.objects.update_or_create(
        audit=row,
        minute=now.replace(second=0, microsecond=0),
        defaults={
            "claimed_prompt_tokens": claimed.prompt,
            "claimed_completion_tokens": claimed.generation,
            "engine_prompt_tokens": gained.prompt if gained else None,
            "engine_completion_tokens": gained.generation if gained else None,
        },
    )
    row.settled_prompt_tokens = row.claimed_prompt_tokens
    row.settled_completion_tokens = row.claimed_completion_tokens
    row.read_at = now
    _fade(row)
    row.save()


def _advance(row: EngineAudit, counters: Tokens | None) -> Tokens | None:
    """Add what the engine counted since the last reading; None where that cannot be known, and both sums begin anew."""
    before = None
    if row.last_prompt_counter is not None and row.last_completion_counter is not None:
        before = Tokens(row.last_prompt_counter, row.last_completion_counter)
    row.last_prompt_counter = counters.prompt if counters else None
    row.last_completion_counter = counters.generation if counters else None
    if counters is None or before is None or engine_counters.has_restarted(before=before, now=counters):
        row.restarts += counters is not None and before is not None
        row.claimed_prompt_tokens = row.claimed_completion_tokens = 0
        row.settled_prompt_tokens = row.settled_completion_tokens = 0
        row.engine_prompt_tokens = row.engine_completion_tokens = 0
        return None
    gained = Tokens(counters.prompt - before.prompt, counters.generation - before.generation)
    row.engine_prompt_tokens += gained.prompt
    row.engine_completion_tokens += gained.generation
    return gained


def _judge(row: EngineAudit, *, now: datetime) -> None:
    exceeds = engine_counters.exceeds_engine(
        claimed=Tokens(row.settled_prompt_tokens, row.settled_completion_tokens),
        engine=Tokens(row.engine_prompt_tokens, row.engine_completion_tokens),
    )
    if row.is_exceeded is exceeds:
        return
    row.is_exceeded, row.changed_at = exceeds, now
    detail = {
        "claimed": [row.settled_prompt_tokens, row.settled_completion_tokens],
        "engine": [row.engine_prompt_tokens, row.engine_completion_tokens],
    }
    findings.announce(row, "node.claims_exceed_engine" if exceeds else "node.claims_match_engine", detail, now=now)


_SUMS: Final = (
    "claimed_prompt_tokens",
    "claimed_completion_tokens",
    "settled_prompt_tokens",
    "settled_completion_tokens",
    "engine_prompt_tokens",
    "engine_completion_tokens",
)


def _fade(row: EngineAudit) -> None:
    """Halve large sums, so that what a node does now weighs more than what it did once."""
    if row.engine_prompt_tokens + row.engine_completion_tokens >= engine_counters.FADING_TOKENS:
        for name in _SUMS:
            setattr(row, name, getattr(row, name) // 2)
