"""What the door reads about the platform itself: its books, its events, where they go, its settings."""

import json
from collections.abc import Iterator
from datetime import datetime

from stripe import RequestOptions
from stripe.params import EventListParams
from stripe.params.v2.core import EventListParams as ThinListParams

from portal.integrations import stripe_reading as reading
from portal.integrations import stripe_webhooks
from portal.integrations.stripe_outcome import StripeCalls, outcome
from portal.integrations.stripe_types import Balance, Event, EventDestination, Movement, Platform, WebhookEndpoint

_PAGE = 100
_MOST_TYPES = 20  # the longest list of event types that Stripe filters by


class BookCalls(StripeCalls):
    """The platform's own part of `Payments`."""

    def balances(self, *, account: str = "") -> list[Balance]:
        """Return the platform's balance, or a connected account's."""
        with outcome():
            return reading.balances(self._v1.balance.retrieve(None, _as(account)).to_dict())

    def movements(self, *, since: datetime) -> list[Movement]:
        """Return the platform's balance transactions since then, oldest first."""
        with outcome():
            lines = self._v1.balance_transactions.list(
                {"created": {"gte": int(since.timestamp())}, "expand": ["data.source"], "limit": _PAGE}
            )
            return [reading.movement(line.to_dict()) for line in lines.auto_paging_iter()][::-1]

    def events_since(
        self, *, since: datetime, types: tuple[str, ...] = (), account: str = ""
    ) -> Iterator[tuple[Event, bytes]]:
        """Return snapshot events since then, of the platform or of a connected account, each with its body."""
        with outcome():
            wanted: EventListParams = {"created": {"gte": int(since.timestamp())}, "limit": _PAGE}
            if 0 < len(types) <= _MOST_TYPES:
                wanted["types"] = list(types)
            for one in self._v1.events.list(wanted, _as(account)).auto_paging_iter():
                if not types or one.type in types:
                    yield _event(one.to_dict())

    def thin_events_since(self, *, since: datetime, types: tuple[str, ...] = ()) -> Iterator[tuple[Event, bytes]]:
        """Return thin events since then, each with its body."""
        with outcome():
            moment = since.isoformat().replace("+00:00", "Z")
            wanted: ThinListParams = {"created": {"gte": moment}, "limit": _PAGE}
            if 0 < len(types) <= _MOST_TYPES:
                wanted["types"] = list(types)
            pages = self._v2.core.events.list(wanted)
            for one in pages.auto_paging_iter():  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
                if not types or one.type in types:
                    yield _event(one.to_dict())

    def webhook_endpoints(self) -> list[WebhookEndpoint]:
        """Return where Stripe sends snapshot events."""
        with outcome():
            found = self._v1.webhook_endpoints.list({"limit": _PAGE})
            return [reading.webhook_endpoint(one.to_dict()) for one in found.auto_paging_iter()]

    def event_destinations(self) -> list[EventDestination]:
        """Return where Stripe sends events of its second API."""
        with outcome():
            found = self._v2.core.event_destinations.list({"include": ["webhook_endpoint.url"], "limit": _PAGE})
            pages = found.auto_paging_iter()  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
            return [reading.event_destination(one.to_dict()) for one in pages]

    def platform(self) -> Platform:
        """Return the operator's own account and what its automatic payouts leave behind."""
        with outcome():
            own = self._v1.accounts.retrieve_current()
            settings = self._v1.balance_settings.retrieve()
        return reading.platform(own.to_dict(), settings=settings.to_dict())


def _as(account: str) -> RequestOptions:
    return {"stripe_account": account} if account else {}


def _event(body: dict[str, object]) -> tuple[Event, bytes]:
    return stripe_webhooks.read(body), json.dumps(body).encode()
