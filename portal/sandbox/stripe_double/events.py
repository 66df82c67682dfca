"""Writes events and queues their delivery, with the mischief that real networks do to webhooks."""

import time
from datetime import UTC, datetime
from typing import cast

from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.store import Store

API_VERSION = "2026-05-27.dahlia"
PLATFORM, CONNECT, THIN = "platform", "connect", "events"
_REORDER_S = 1.5


def iso(seconds: int) -> str:
    """Return a v2 time."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def emit(store: Store, kind: str, subject: Body, *, account: str = "", request: str = "") -> Body:
    """Write a v1 snapshot event about `subject` and queue it."""
    event: Body = {
        "id": store.new_id("evt"),
        "object": "event",
        "api_version": API_VERSION,
        "created": store.now(),
        "data": {"object": subject},
        "livemode": store.meta("is_live") == "1",
        "pending_webhooks": 1,
        "request": {"id": request or None, "idempotency_key": None},
        "type": kind,
    }
    if account:
        event["account"] = account
    store.put("event", event, account=account)
    _queue(store, event, CONNECT if account else PLATFORM)
    return event


def emit_thin(store: Store, kind: str, account: Body) -> Body:
    """Write a v2 thin event about an account and queue it: an id, no state."""
    event: Body = {
        "id": store.new_id("evt"),
        "object": "v2.core.event",
        "created": iso(store.now()),
        "livemode": account["livemode"],
        "type": kind,
        "related_object": {
            "id": account["id"],
            "type": "v2.core.account",
            "url": f"/v2/core/accounts/{account['id']}",
        },
    }
    store.put("v2.core.event", event)
    _queue(store, event, THIN)
    return event


def _queue(store: Store, event: Body, endpoint: str) -> None:
    """Queue a delivery under the first mischief that is still due, where the endpoint takes this type."""
    if not _is_wanted(store, endpoint, str(event["type"])):
        return
    due = time.time()
    policy = store.rows("SELECT id, kind, value FROM policies WHERE remaining > 0 ORDER BY id LIMIT 1")
    sent = [event["id"]]
    if policy:
        number, kind, value = policy[0]
        store.rows("UPDATE policies SET remaining = remaining - 1 WHERE id = ?", number)
        sent = _copies(store, event, str(kind))
        due += {"delay": float(str(value)), "reorder": _REORDER_S}.get(str(kind), 0.0)
    for name in sent:
        store.rows("INSERT INTO deliveries (event, endpoint, due, tries) VALUES (?, ?, ?, 0)", name, endpoint, due)


def _copies(store: Store, event: Body, kind: str) -> list[object]:
    """Return the events to send: none, one, one twice, or two with ids of their own for one change."""
    if kind == "twin":
        copy = event | {"id": store.new_id("evt")}
        twin = store.put(str(event["object"]), copy, account=str(event.get("account", "")))
        return [event["id"], twin["id"]]
    return [event["id"]] * {"drop": 0, "duplicate": 2}.get(kind, 1)


def _is_wanted(store: Store, endpoint: str, kind: str) -> bool:
    """Tell whether the endpoint is switched on and was told to hear of this."""
    kept = store.find(store.meta(f"endpoint:{endpoint}"))
    if kept is None:
        return True
    wanted = [str(name) for name in cast("list[object]", kept["enabled_events"])]
    return kept["status"] == "enabled" and ("*" in wanted or kind in wanted)
