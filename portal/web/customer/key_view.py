"""What pages say about keys, projects and their budgets, as ready values."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo

from portal.accounts.models import AlertKind, ApiKey, KeyAlert, KeySighting
from portal.accounts.models.terms import Budgeted, Limited
from portal.billing.selectors import budgets
from portal.billing.selectors.budgets import BudgetStanding
from portal.web import formats

_PERIODS = {"day": "a day", "week": "a week", "month": "a month", "lifetime": "in all"}
_ALERTS = {
    AlertKind.NEW_NETWORK: "used from a new network",
    AlertKind.NEW_COUNTRY: "used from a new country",
    AlertKind.SPEND_SPIKE: "spends far more than usual",
}


@dataclass(frozen=True, slots=True)
class BudgetOf:
    """A budget as its owner has it set, for the selector of its standing."""

    owner: str
    period: str
    cap_nano: int
    zone: str


@dataclass(frozen=True, slots=True)
class ShownBudget:
    """A budget in its present window. `share` is a width; `resets` says when it starts again, in which zone."""

    whose: str
    cap_nano: int
    per: str
    spent_nano: int
    held_nano: int
    left_nano: int
    share: str
    resets: str


def state_of(key: ApiKey, now: datetime) -> str:
    """Return active, expired or revoked."""
    if key.revoked_at is not None:
        return "revoked"
    return "expired" if key.expires_at is not None and key.expires_at <= now else "active"


def shown_budgets(owners: Iterable[tuple[str, str, Budgeted]], *, zone: str, now: datetime) -> dict[str, ShownBudget]:
    """Return by public id where budgets stand. `owners` are (public id, whose, row); who has no cap is left out."""
    asked = [
        (whose, BudgetOf(owner, row.budget_period, row.budget_cap_nano, zone))
        for owner, whose, row in owners
        if row.budget_cap_nano is not None
    ]
    found = budgets.standings(budgets=[terms for _, terms in asked], now=now)
    return {standing.owner: _shown(whose, standing) for (whose, _), standing in zip(asked, found, strict=True)}


def budgets_of(key: ApiKey, *, now: datetime) -> list[ShownBudget]:
    """Return every budget that the key draws on: its own, its project's, its organization's."""
    organization = key.organization
    owners: list[tuple[str, str, Budgeted]] = [(key.public_id, "this key", key)]
    if key.project:
        owners.append((key.project.public_id, f"project {key.project.name}", key.project))
    owners.append((organization.public_id, "the whole organization", organization))
    return list(shown_budgets(owners, zone=organization.time_zone, now=now).values())


def limits_text(row: Limited) -> list[str]:
    """Say which limits are set."""
    named = (
        (row.requests_per_minute, "requests a minute"),
        (row.tokens_per_minute, "tokens a minute"),
        (row.parallel_requests, "at once"),
    )
    return [f"{formats.count(value)} {what}" for value, what in named if value is not None]


def place_text(place: KeySighting | None) -> str:
    """Say from where a key was used."""
    if place is None:
        return ""
    return f"{place.network} ({place.country})" if place.country else place.network


def alert_rows(alerts: Iterable[KeyAlert]) -> list[dict[str, object]]:
    """Return alerts with their words."""
    return [
        {"key": alert.key, "at": alert.created_at, "words": _ALERTS[AlertKind(alert.kind)], "what": _what(alert)}
        for alert in alerts
    ]


def in_zone(moment: datetime, zone: str) -> str:
    """Write a moment in a time zone, which it names."""
    return f"{moment.astimezone(ZoneInfo(zone)):%Y-%m-%d %H:%M} {zone}"


def key_row(
    key: ApiKey,
    *,
    budget: ShownBudget | None,
    spent_nano: int,
    places: Mapping[int, KeySighting],
    now: datetime,
) -> dict[str, object]:
    """Return one line of the list of keys."""
    place = places.get(key.pk)
    return {
        "key": key,
        "state": state_of(key, now),
        "budget": budget,
        "spent_nano": spent_nano,
        "limits": limits_text(key),
        "is_in_grace": key.grace_until is not None and key.grace_until > now,
        "used_at": place.last_seen_at if place else None,
        "place": place_text(place),
    }


def _shown(whose: str, standing: BudgetStanding) -> ShownBudget:
    gone = standing.spent_nano + standing.held_nano
    resets = "never" if standing.resets_at is None else in_zone(standing.resets_at, standing.zone)
    return ShownBudget(
        whose=whose,
        cap_nano=standing.cap_nano,
        per=_PERIODS[standing.period],
        spent_nano=standing.spent_nano,
        held_nano=standing.held_nano,
        left_nano=standing.left_nano,
        share=f"{min(100, 100 * gone // standing.cap_nano)}%",
        resets=resets,
    )


def _what(alert: KeyAlert) -> str:
    if alert.kind == AlertKind.SPEND_SPIKE:
        return f"{alert.detail['spent']} on {alert.subject}; {alert.detail['usual']} a day before"
    country = alert.detail.get("country")
    return f"{alert.detail['network']} ({country})" if country else str(alert.detail["network"])
