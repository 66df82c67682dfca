"""What the rooms hear from Stripe about the platform itself: its books, its settings, its events and endpoints."""

from dataclasses import dataclass, field
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Balance:
    """What lies at Stripe in one currency."""

    currency: str
    available_minor: int
    pending_minor: int


@dataclass(frozen=True, slots=True)
class Movement:
    """One balance transaction: a line of Stripe's own books; `related` are the ids that its source names."""

    id: str
    type: str
    amount_minor: int
    fee_minor: int
    net_minor: int
    currency: str
    source: str
    created_at: datetime
    related: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Platform:
    """The operator's own Stripe account, as far as this software depends on it."""

    id: str
    country: str
    default_currency: str
    charges_enabled: bool
    payouts_enabled: bool
    payout_interval: str
    minimum_balance_minor: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """A verified event: what changed, never how it looks. `account` is empty for the platform's own."""

    id: str
    type: str
    object_id: str
    account: str
    is_live: bool
    created_at: datetime


@dataclass(frozen=True, slots=True)
class WebhookEndpoint:
    """Where Stripe sends snapshot events; `events` may hold `*`, `api_version` is empty for the account's default."""

    id: str
    url: str
    events: tuple[str, ...]
    api_version: str
    is_enabled: bool
    is_connect: bool


@dataclass(frozen=True, slots=True)
class EventDestination:
    """Where Stripe sends events of its second API; `payload` is `thin` or `snapshot`."""

    id: str
    url: str
    events: tuple[str, ...]
    payload: str
    is_enabled: bool
