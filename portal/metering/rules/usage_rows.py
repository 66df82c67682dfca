"""A usage record on its way into the database: typed columns, and the hash that proves a replay is the same record."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import date, datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRow:
    """One closed attempt; the fields are the table's columns but for the hash, in the table's order."""

    opened_on: date
    request_id: UUID
    attempt: int
    spool_id: str
    spool_seq: int
    organization_id: int
    api_key_id: int
    provider_id: int
    node_id: int
    model_id: int
    price_version_id: int
    share_bps: int
    lease_ids: Sequence[int]
    lease_charges: Sequence[int]
    budget_lease_ids: Sequence[int]
    budget_charges: Sequence[int]
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    claimed_prompt_tokens: int | None
    claimed_cached_tokens: int | None
    claimed_completion_tokens: int | None
    counted_prompt_tokens: int | None
    counted_completion_tokens: int | None
    expected_cached_tokens: int | None
    delivered_bytes: int
    token_source: str
    hold_nano: int
    charge_nano: int
    provider_nano: int
    platform_nano: int
    outcome: str
    error_code: str
    is_stream: bool
    endpoint: str
    node_class: str
    country: str
    client_request_id: str
    opened_at: datetime
    first_token_at: datetime | None
    closed_at: datetime
    routing: dict[str, Any] | None
    tunnel_proof: str | None = None

    def written(self) -> bytes:
        """Return the row as JSON, its keys in order; equal records are written alike, whoever ships them.

        A record without a proof is written as it was before there were any: its hash stays what it was.
        """
        row = dict(zip(COLUMNS, _VALUES(self), strict=True))
        if self.tunnel_proof is None:
            del row["tunnel_proof"]
        return orjson.dumps(row, option=orjson.OPT_SORT_KEYS)

    def content_hash(self) -> str:
        """Return the hex SHA-256 over all fields; equal records have equal hashes."""
        return hashlib.sha256(self.written()).hexdigest()


COLUMNS = tuple(field.name for field in fields(UsageRow))
_VALUES = attrgetter(*COLUMNS)
