"""Adds newly posted usage to the daily sums; part of the posting's own transaction, so a record counts once."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date

from django.db import connection

from portal.metering.models import UsageRecord

_SPEND = """
INSERT INTO billing_spendday AS sums (day, organization_id, api_key_id, model_id, price_version_id,
    requests, prompt_tokens, cached_tokens, completion_tokens, charge_nano)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (organization_id, day, model_id, api_key_id, price_version_id) DO UPDATE SET
    requests = sums.requests + EXCLUDED.requests,
    prompt_tokens = sums.prompt_tokens + EXCLUDED.prompt_tokens,
    cached_tokens = sums.cached_tokens + EXCLUDED.cached_tokens,
    completion_tokens = sums.completion_tokens + EXCLUDED.completion_tokens,
    charge_nano = sums.charge_nano + EXCLUDED.charge_nano
"""

_EARNING = """
INSERT INTO billing_earningday AS sums (day, provider_id, node_id, model_id, price_version_id, share_bps,
    node_class, requests, prompt_tokens, cached_tokens, completion_tokens, charge_nano, earned_nano)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (provider_id, day, node_id, model_id, price_version_id, share_bps, node_class) DO UPDATE SET
    requests = sums.requests + EXCLUDED.requests,
    prompt_tokens = sums.prompt_tokens + EXCLUDED.prompt_tokens,
    cached_tokens = sums.cached_tokens + EXCLUDED.cached_tokens,
    completion_tokens = sums.completion_tokens + EXCLUDED.completion_tokens,
    charge_nano = sums.charge_nano + EXCLUDED.charge_nano,
    earned_nano = sums.earned_nano + EXCLUDED.earned_nano
"""

_SpendKey = tuple[date, int, int, int, int]
_EarningKey = tuple[date, int, int, int, int, int, str]
_Row = tuple[date | int | str, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """A usage record, what its provider earned by it, and whether a share was withheld."""

    record: UsageRecord
    earned_nano: int
    is_withheld: bool = False


def add(counted: Iterable[Counted]) -> None:
    """Add the records to the sums of their UTC day of completion; records that used nothing are left out."""
    spend: dict[_SpendKey, list[int]] = defaultdict(lambda: [0] * 5)
    earning: dict[_EarningKey, list[int]] = defaultdict(lambda: [0] * 6)
    for item in counted:
        row = item.record
        used = [1, row.prompt_tokens, row.cached_tokens, row.completion_tokens, row.charge_nano]
        if not any(used[1:]):
            continue
        day = row.closed_at.astimezone(UTC).date()
        _sum(spend[(day, row.organization_id, row.api_key_id, row.model_id, row.price_version_id)], used)
        share = 0 if item.is_withheld else row.share_bps
        served = (day, row.provider_id, row.node_id, row.model_id, row.price_version_id, share, row.node_class)
        _sum(earning[served], [*used, item.earned_nano])
    _store(_SPEND, [(*key, *sums) for key, sums in sorted(spend.items())])
    _store(_EARNING, [(*key, *sums) for key, sums in sorted(earning.items())])


def _sum(into: list[int], values: list[int]) -> None:
    for position, value in enumerate(values):
        into[position] += value


def _store(statement: str, rows: list[_Row]) -> None:
    """Write in key order, so that two posters that meet in several rows wait for each other and never deadlock."""
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(statement, rows)
