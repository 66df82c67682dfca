"""GET /v1/key: what the calling key may do, what is left of it and what it has spent."""

from datetime import UTC, datetime, timedelta
from typing import Any

from portal.billing.rules import periods
from portal.billing.selectors.key_spend import spent_by_key
from portal.core.money import decimal_text
from portal.gateway.config import GatewayConfig
from portal.gateway.contracts import KeyEntry


def describe(*, key: KeyEntry, limits: GatewayConfig, currency: str, now: datetime) -> dict[str, Any]:
    """Return the key's terms and spend. Blocking: called in a database thread."""
    today = now.astimezone(UTC).date()
    month = periods.month_of(now)
    begins = {
        "day": today,
        "week": today - timedelta(days=today.weekday()),
        "month": month.starts_at.date(),
    }
    spend = {
        name: spent_by_key(organization_id=key.organization_id, since=since, until=today).get(key.id, 0)
        for name, since in begins.items()
    }
    return {
        "object": "key",
        "id": key.public_id,
        "organization": key.organization,
        "node_classes": sorted(key.node_classes),
        "tools_on_any_class": key.tools_on_any_class,
        "expires_at": _moment(key.expires_at),
        "currency": currency,
        "budget": _budget(key.monthly_cap_nano, spend["month"], month.ends_at),
        "limits": {
            "requests_per_minute": limits.key_requests_per_minute,
            "tokens_per_minute": limits.key_tokens_per_minute,
            "parallel_requests": limits.key_concurrency,
        },
        "spend": {name: decimal_text(nano) for name, nano in spend.items()},
    }


def _budget(cap_nano: int | None, spent_nano: int, resets_at: datetime) -> dict[str, Any] | None:
    if cap_nano is None:
        return None
    return {
        "monthly_cap": decimal_text(cap_nano),
        "remaining": decimal_text(max(0, cap_nano - spent_nano)),
        "resets_at": resets_at.isoformat(),
    }


def _moment(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, tz=UTC).isoformat()
