"""Checks that Stripe tells this pool everything: endpoints, what they hear and in which version, and the inbox."""

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

from django.conf import settings

from portal.integrations import stripe
from portal.integrations.stripe import API_VERSION
from portal.integrations.stripe_errors import PaymentError
from portal.integrations.stripe_types import WebhookEndpoint
from portal.payouts.services.doctor import Finding
from portal.webhooks import handlers
from portal.webhooks.models import CatchUpCursor, EventState, StripeEvent

_WAITING_TOO_LONG = timedelta(hours=1)
_AHEAD_S = 10
_LATE_S = 240
_LOOKED_AT = 20
_SHOWN = 5
_ANY = "*"


def examine(*, now: datetime) -> Iterator[Finding]:
    """Yield how the events that came were taken in: what waits or failed, the clock, and what was lost."""
    yield from _inbox(now)
    yield from _clock()
    yield from _cursors(now)


def endpoints() -> Iterator[Finding]:
    """Yield whether Stripe sends all that is handled here, as it is handled."""
    try:
        door = stripe.payments()
        known, destinations = door.webhook_endpoints(), door.event_destinations()
    except PaymentError as error:
        fix = error.fix or "run this again in a minute"
        yield Finding("webhook_endpoints", "warn", "endpoints cannot be read", fix, cause=error.message)
        return
    for name, path, is_connect, wanted in (
        ("webhook_platform", "/webhooks/stripe/", False, handlers.PLATFORM),
        ("webhook_connect", "/webhooks/stripe/connect/", True, handlers.CONNECT),
    ):
        ours = [one for one in known if one.url.endswith(path) and one.is_connect is is_connect]
        yield from _endpoint(name, path, ours, wanted)
    path = "/webhooks/stripe/events/"
    heard = [one for one in destinations if one.url.endswith(path)]
    if settings.STRIPE_ACCOUNTS_API == "v2":
        yield _heard("event_destination", path, [(one.is_enabled, one.events) for one in heard], handlers.EVENTS)


def _endpoint(name: str, path: str, ours: list[WebhookEndpoint], wanted: Iterable[str]) -> Iterator[Finding]:
    yield _heard(name, path, [(one.is_enabled, one.events) for one in ours], wanted)
    for one in ours:
        if one.is_enabled and one.api_version and one.api_version != API_VERSION:
            detail = f"{one.id} sends events of {one.api_version}"
            fix = f"make the endpoint again with API version {API_VERSION}"
            yield Finding(f"{name}_version", "warn", detail, fix, cause="a version is fixed when an endpoint is made")


def _heard(name: str, path: str, ours: list[tuple[bool, tuple[str, ...]]], wanted: Iterable[str]) -> Finding:
    """Say whether some enabled endpoint hears everything that is handled here."""
    if not ours:
        cause = "without it the pool learns of changes from its own looks alone, minutes or hours later"
        return Finding(name, "fail", f"Stripe knows no endpoint that ends with {path}", f"add {_url(path)}", cause)
    heard = {event for is_enabled, events in ours if is_enabled for event in events}
    if not heard:
        fix = "enable it in Stripe's dashboard, and see there why Stripe switched it off"
        return Finding(name, "fail", f"the endpoint {path} is switched off", fix, "Stripe stops endpoints that fail")
    missing = [] if _ANY in heard else sorted(set(wanted) - heard)
    if missing:
        shown = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        return Finding(name, "warn", f"does not hear {shown}", "add these events to the endpoint")
    return Finding(name, "ok", f"hears all that is handled, at {path}")


def _url(path: str) -> str:
    return f"{settings.PUBLIC_URL}{path}"


def _inbox(now: datetime) -> Iterator[Finding]:
    old = StripeEvent.objects.filter(state=EventState.PENDING, received_at__lt=now - _WAITING_TOO_LONG)
    waiting = old.count()
    if waiting:
        first = old.order_by("received_at").first()
        cause = first.error if first else ""
        fix = "see that a worker runs; an event of something unknown is tried for three days"
        yield Finding("inbox", "warn", f"{waiting} events wait for more than an hour", fix, cause)
    failed = StripeEvent.objects.filter(state=EventState.FAILED).order_by("-received_at")
    if failed.exists():
        last = failed[0]
        detail = f"{failed.count()} events could not be handled, the last {last.type} {last.event_id}"
        yield Finding("inbox_failed", "warn", detail, "look at each and book what is missing", last.error)
    if not waiting and not failed.exists():
        yield Finding("inbox", "ok", "no event waits")


def _clock() -> Iterator[Finding]:
    """Compare when Stripe made events with when they came: signatures are good for five minutes only."""
    rows = StripeEvent.objects.order_by("-received_at").values_list("received_at", "body")[:_LOOKED_AT]
    delays = [(came - made).total_seconds() for came, body in rows if (made := _made_at(bytes(body))) is not None]
    if not delays:
        return
    fastest = min(delays)
    if fastest < -_AHEAD_S:
        yield Finding(
            "clock", "warn", f"events come {-fastest:.0f} s before they are made", "set this machine's clock by NTP"
        )
    elif fastest > _LATE_S:
        detail = f"the fastest of the last events took {fastest:.0f} s"
        yield Finding("clock", "warn", detail, "set this machine's clock by NTP", "or Stripe could not deliver at once")
    else:
        yield Finding("clock", "ok", f"the fastest of the last events took {max(fastest, 0):.0f} s")


def _made_at(body: bytes) -> datetime | None:
    try:
        made = json.loads(body).get("created")
    except (ValueError, AttributeError):
        return None
    if isinstance(made, int):
        return datetime.fromtimestamp(made, UTC)
    return datetime.fromisoformat(made) if isinstance(made, str) and made else None


def _cursors(now: datetime) -> Iterator[Finding]:
    for row in CatchUpCursor.objects.order_by("source"):
        age = now - row.read_until
        if row.has_gap:
            detail = f"events of {row.source} before {row.gap_until:%Y-%m-%d %H:%M} are lost at Stripe"
            fix = "run `manage.py recover --after-restore`: it compares the objects themselves"
            yield Finding(f"catch_up_{row.source}", "warn", detail, fix, "Stripe keeps events for thirty days")
        elif age > _WAITING_TOO_LONG * 3:
            hours = int(age.total_seconds() // 3600)
            detail = f"the list of {row.source} events was last read {hours} h ago"
            yield Finding(f"catch_up_{row.source}", "warn", detail, "see that beat and a worker run")
