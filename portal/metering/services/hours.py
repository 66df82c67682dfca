"""Sums usage by hour: one aggregator, in the order in which records came, each record exactly once."""

from django.db import connection, transaction

from portal.metering.models import Reader
from portal.metering.rules import outcomes

# One statement, so that a record leaves the queue and enters its hour together, or neither.
_ADD = """
    WITH taken AS (
        DELETE FROM metering_usagequeue WHERE id IN (
            SELECT id FROM metering_usagequeue WHERE reader = %(reader)s ORDER BY id LIMIT %(limit)s
        ) RETURNING opened_on, request_id, attempt
    ), sums AS (
        SELECT date_trunc('hour', usage.closed_at, 'UTC') AS hour, organization_id, api_key_id, provider_id, node_id,
            model_id, count(*) AS attempts, count(*) FILTER (WHERE charge_nano > 0) AS charged,
            count(*) FILTER (WHERE outcome = ANY(%(faults)s)) AS faults, sum(prompt_tokens) AS prompt_tokens,
            sum(cached_tokens) AS cached_tokens, sum(completion_tokens) AS completion_tokens,
            coalesce(sum(claimed_completion_tokens) FILTER (WHERE counted_completion_tokens IS NOT NULL), 0)
                AS claimed_tokens,
            coalesce(sum(counted_completion_tokens) FILTER (WHERE claimed_completion_tokens IS NOT NULL), 0)
                AS counted_tokens,
            sum(charge_nano) AS charge_nano, sum(provider_nano) AS provider_nano,
            coalesce(sum(extract(epoch FROM first_token_at - opened_at) * 1000)
                FILTER (WHERE is_stream), 0)::bigint AS first_token_ms,
            count(first_token_at) FILTER (WHERE is_stream) AS streams
        FROM taken JOIN metering_usagerecord usage USING (opened_on, request_id, attempt)
        GROUP BY 1, 2, 3, 4, 5, 6
    ), stored AS (
        INSERT INTO metering_usagehour AS known ({columns}) SELECT {columns} FROM sums
        ON CONFLICT (organization_id, hour, api_key_id, node_id, model_id) DO UPDATE SET {updates}
    )
    SELECT count(*) FROM taken
"""
_KEYS = ("hour", "organization_id", "api_key_id", "provider_id", "node_id", "model_id")
SUMMED = (
    "attempts",
    "charged",
    "faults",
    "prompt_tokens",
    "cached_tokens",
    "completion_tokens",
    "claimed_tokens",
    "counted_tokens",
    "charge_nano",
    "provider_nano",
    "first_token_ms",
    "streams",
)
_SQL = _ADD.format(
    columns=", ".join((*_KEYS, *SUMMED)),
    updates=", ".join(f"{name} = known.{name} + EXCLUDED.{name}" for name in SUMMED),
)
ALONE = "SELECT pg_try_advisory_xact_lock(hashtextextended('poolhouse.metering.hours', 0))"
_BATCH = 5_000


def add_new(*, limit: int = _BATCH) -> int:
    """Add up to `limit` queued records to their hours; return how many, 0 where another aggregator is at work."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(ALONE)
        if not cursor.fetchone()[0]:
            return 0
        cursor.execute(_SQL, {"reader": Reader.HOURS.value, "limit": limit, "faults": sorted(outcomes.NODE_FAULTS)})
        return int(cursor.fetchone()[0])


def add_all() -> int:
    """Add everything that waits; return how many records there were."""
    total = 0
    while added := add_new():
        total += added
    return total
