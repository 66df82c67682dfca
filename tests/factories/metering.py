"""Usage rows as a spool would ship them, and the spool they come from."""

from datetime import UTC, datetime, timedelta

from portal.audit.services import Actor
from portal.core import ids
from portal.metering.models import Spool, UsageRecord
from portal.metering.rules.usage_rows import UsageRow
from portal.metering.services import ingest, spools

ACTOR = Actor(public_id="user_operator")
AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def spool(*, process: str = "gateway@0 on test", now: datetime = AT) -> Spool:
    """Register a new spool."""
    return spools.register(public_id=ids.public_id("spool"), process=process, host="test", now=now)


def usage_row(**overrides: object) -> UsageRow:
    """Return a row of 100 prompt and 50 completion tokens charged 2,000 nano, shared 80 to 20; override any field."""
    opened_at = overrides.get("opened_at", AT)
    values: dict[str, object] = {
        "opened_on": opened_at.date(),
        "request_id": ids.uuid7(),
        "attempt": 1,
        "spool_id": "spool_none",
        "spool_seq": 1,
        "organization_id": 1,
        "api_key_id": 1,
        "provider_id": 1,
        "node_id": 1,
        "model_id": 1,
        "price_version_id": 1,
        "share_bps": 8000,
        "lease_ids": [1],
        "lease_charges": None,
        "budget_lease_ids": [],
        "budget_charges": None,
        "prompt_tokens": 100,
        "cached_tokens": 0,
        "completion_tokens": 50,
        "claimed_prompt_tokens": 100,
        "claimed_cached_tokens": 0,
        "claimed_completion_tokens": 50,
        "counted_prompt_tokens": 100,
        "counted_completion_tokens": 49,
        "expected_cached_tokens": None,
        "delivered_bytes": 200,
        "token_source": "claim",
        "hold_nano": 10_000,
        "charge_nano": 2_000,
        "provider_nano": 1_600,
        "platform_nano": 400,
        "outcome": "completed",
        "error_code": "",
        "is_stream": True,
        "endpoint": "chat/completions",
        "node_class": "house",
        "country": "DE",
        "client_request_id": "",
        "opened_at": opened_at,
        "first_token_at": opened_at + timedelta(milliseconds=200),
        "closed_at": opened_at + timedelta(seconds=2),
        "routing": None,
    }
    values |= overrides
    charge = values["charge_nano"]
    values["lease_charges"] = values["lease_charges"] or [charge, *(0 for _ in values["lease_ids"][1:])]
    values["budget_charges"] = values["budget_charges"] or [charge for _ in values["budget_lease_ids"]]
    return UsageRow(**values)


def usage_record(**overrides: object) -> UsageRecord:
    """Ingest one row through a spool of its own unless `spool_id` names one; return it as stored."""
    if "spool_id" not in overrides:
        overrides["spool_id"] = spool().public_id
    row = usage_row(**overrides)
    ingest.ingest(spool=row.spool_id, rows=[row], now=row.closed_at)
    return UsageRecord.objects.get(opened_on=row.opened_on, request_id=row.request_id, attempt=row.attempt)
