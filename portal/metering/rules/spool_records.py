"""The records of a spool file, as JSON.

`open` has all that was pinned, `mark` what was seen so far, `close` the bill.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import orjson

from portal.core.records import record
from portal.metering.rules.draws import Draws, Parts
from portal.metering.rules.usage_rows import UsageRow


@record(frozen=True, slots=True)
class PinnedPrice:
    """The four price fields as the open record carries them."""

    prompt_nano_per_mtok: int
    cached_nano_per_mtok: int
    completion_nano_per_mtok: int
    request_nano: int


@record(frozen=True, slots=True)
class OpenRecord:
    """An attempt's facts; `row` holds the columns of its usage record that are known at once, `draws` its hold.

    The day of `requested_at` is the record's `opened_on`: the same for all attempts of a request.
    """

    row: dict[str, Any]
    price: PinnedPrice
    draws: Draws
    requested_at: float
    opened_at: float
    prompt_bound: int
    output_bound: int
    has_tolerance: bool
    end_tokens: int


@dataclass(frozen=True, slots=True)
class MarkRecord:
    """What had been seen of an open attempt at the last mark; `draws` where its hold had grown since it was opened."""

    marked_at: float
    first_token_at: float | None
    delivered_bytes: int
    claimed_prompt: int | None
    claimed_cached: int | None
    claimed_completion: int | None
    counted_prompt: int | None
    counted_completion: int | None
    draws: Draws | None = None


def encode_open(record: OpenRecord) -> bytes:
    """Return the open record as stored."""
    price = record.price
    return orjson.dumps(
        (
            record.row,
            (
                price.prompt_nano_per_mtok,
                price.cached_nano_per_mtok,
                price.completion_nano_per_mtok,
                price.request_nano,
            ),
            _encoded(record.draws),
            record.requested_at,
            record.opened_at,
            record.prompt_bound,
            record.output_bound,
            record.has_tolerance,
            record.end_tokens,
        )
    )


def decode_open(body: bytes) -> OpenRecord:
    """Read a stored open record."""
    row, price, draws, *rest = orjson.loads(body)
    return OpenRecord(row, PinnedPrice(*price), Draws(*draws), *rest)


def encode_mark(mark: MarkRecord) -> bytes:
    """Return the mark as stored."""
    return orjson.dumps(
        (
            mark.marked_at,
            mark.first_token_at,
            mark.delivered_bytes,
            mark.claimed_prompt,
            mark.claimed_cached,
            mark.claimed_completion,
            mark.counted_prompt,
            mark.counted_completion,
            None if mark.draws is None else _encoded(mark.draws),
        )
    )


def decode_mark(body: bytes) -> MarkRecord:
    """Read a stored mark."""
    *seen, draws = orjson.loads(body)
    mark = MarkRecord(*seen)
    return mark if draws is None else replace(mark, draws=Draws(*draws))


def encode_close(columns: dict[str, Any]) -> bytes:
    """Return the close record as stored: the columns that the open record lacks, times as Unix seconds."""
    return orjson.dumps(columns)


def usage_row(*, spool_id: str, seq: int, opened: bytes, closed: bytes) -> UsageRow:
    """Join an open and its close into the usage record; the same two always give the same row."""
    columns: dict[str, Any]
    columns, _price, _draws, requested_at, opened_at, *_ = orjson.loads(opened)
    columns |= orjson.loads(closed)
    first_token_at = columns["first_token_at"]
    columns["first_token_at"] = None if first_token_at is None else _time(first_token_at)
    columns["request_id"] = UUID(columns["request_id"])
    columns["closed_at"] = _time(columns["closed_at"])
    return UsageRow(
        opened_on=_time(requested_at).date(), spool_id=spool_id, spool_seq=seq, opened_at=_time(opened_at), **columns
    )


def _encoded(draws: Draws) -> tuple[Parts, Sequence[Parts]]:
    return draws.credit, draws.budgets


def _time(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
