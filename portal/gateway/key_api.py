"""GET /v1/key: what the calling key may do, what is left of it, when that starts again, and what it has spent."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from portal.billing.selectors import budgets
from portal.billing.selectors.budgets import BudgetStanding
from portal.billing.selectors.key_spend import spent_by_key
from portal.core.money import decimal_text
from portal.gateway.contracts import KeyEntry, KeyPolicy
from portal.gateway.limits.answers import duration
from portal.gateway.limits.owner import Owner
from portal.gateway.limits.shares import Share


def describe(*, key: KeyEntry, limits: list[dict[str, Any]], currency: str, now: datetime) -> dict[str, Any]:
    """Return the key's terms, budgets and spend. Blocking: called in a database thread."""
    standings = budgets.standings(budgets=key.budgets, now=now)
    return {
        "object": "key",
        "id": key.public_id,
        "organization": key.organization,
        "project": key.project,
        "expires_at": _moment(key.expires_at),
        "is_old_secret": key.is_replaced,
        "policy": _policy(key, key.policy),
        "currency": currency,
        "budgets": [_budget(standing) for standing in standings],
        "limits": limits,
        "spend": _spend(key, now),
    }


def limits_of(owners: Sequence[Owner], *, now: float) -> list[dict[str, Any]]:
    """Return the limits that bind the key and how they stand. `now` is monotonic."""
    return [
        {
            "of": owner.kind,
            "id": owner.public_id,
            "requests_per_minute": _rate(owner.requests, now),
            "tokens_per_minute": _rate(owner.tokens, now),
            "parallel_requests": {"limit": owner.places.size} if owner.places.size else None,
        }
        for owner in owners
    ]


def _rate(share: Share, now: float) -> dict[str, Any] | None:
    if not share.size:
        return None
    return {
        "limit": share.size,
        "remaining": max(0, int(share.remaining(now))),
        "resets_in": duration(share.reset_s(now)).decode(),
    }


def _policy(key: KeyEntry, policy: KeyPolicy) -> dict[str, Any]:
    return {
        "node_classes": sorted(key.node_classes),
        "is_private_only": policy.is_private_only,
        "countries": None if policy.countries is None else sorted(policy.countries),
        "models": None if policy.models is None else sorted(policy.models),
        "networks": [str(network) for network in policy.networks] or None,
        "allows_tools": policy.allows_tools,
        "tools_on_any_class": key.tools_on_any_class,
    }


def _budget(standing: BudgetStanding) -> dict[str, Any]:
    kinds = {"org_": "organization", "proj": "project"}
    return {
        "of": kinds.get(standing.owner[:4], "key"),
        "id": standing.owner,
        "period": standing.period,
        "time_zone": standing.zone,
        "cap": decimal_text(standing.cap_nano),
        "spent": decimal_text(standing.spent_nano),
        "held": decimal_text(standing.held_nano),
        "remaining": decimal_text(standing.left_nano),
        "starts_at": standing.starts_at.isoformat(),
        "resets_at": standing.resets_at.isoformat() if standing.resets_at else None,
    }


def _spend(key: KeyEntry, now: datetime) -> dict[str, Any]:
    """Return what the key has spent in calendar days of UTC, as its invoices count them."""
    today = now.astimezone(UTC).date()
    begins = {"day": today, "week": today - timedelta(days=today.weekday()), "month": today.replace(day=1)}
    sums = {
        name: spent_by_key(organization_id=key.organization_id, since=since, until=today).get(key.id, 0)
        for name, since in begins.items()
    }
    return {"time_zone": "UTC", **{name: decimal_text(nano) for name, nano in sums.items()}}


def _moment(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, tz=UTC).isoformat()
