"""The control API below `/_double/`: time, failures, keys, webhooks, the platform, and everything about money."""

from collections.abc import Callable
from typing import cast

from portal.sandbox.stripe_double import permissions, platform
from portal.sandbox.stripe_double.clock import tick
from portal.sandbox.stripe_double.control_money import MoneyControl
from portal.sandbox.stripe_double.control_words import FIELDS, PLATFORM_NUMBERS, number, require_known, text, word
from portal.sandbox.stripe_double.engine import HELD_S, HOLD, Engine
from portal.sandbox.stripe_double.events import API_VERSION
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.hooks import Hooks, described
from portal.sandbox.stripe_double.store import Store

FAULT_KINDS = frozenset({"timeout", "reset", "500", "429", "409", HOLD})
WEBHOOK_KINDS = frozenset({"duplicate", "twin", "reorder", "delay", "drop"})
KEPT_BY_RESET = ("is_live", "currency", "base")


class Control:
    """What a test or the demo may do to the stand-in that no customer of Stripe could."""

    def __init__(self, store: Store, hooks: Hooks, engine: Engine) -> None:
        self._store = store
        self._hooks = hooks
        self._engine = engine
        self._calls: dict[str, Callable[[Body], Body]] = {
            "state": self._state,
            "reset": self._reset,
            "clock/advance": self._advance,
            "endpoint": self._endpoint,
            "fail": self._fail,
            "key": self._key,
            "webhooks": self._webhooks,
            "platform": self._platform,
            **MoneyControl(store).calls(),
        }
        # These wait for requests in other threads, so they must not hold the store.
        self._waiting: dict[str, Callable[[Body], Body]] = {"gate/held": self._gate_held, "gate/open": self._gate_open}

    def handle(self, name: str, body: Body) -> Body:
        """Do what `name` says; no name lists them all. Raises Refusal."""
        if not name:
            return {"controls": {known: list(fields) for known, fields in FIELDS.items()}}
        require_known(name, body)
        waiting = self._waiting.get(name)
        if waiting is not None:
            return waiting(body)
        with self._store.transaction():
            return self._calls[name](body)

    def _state(self, body: Body) -> Body:
        return {
            "now": self._store.now(),
            "pending_webhooks": [described(one) for one in self._hooks.pending()],
            "armed": self._armed(),
            **self._engine.counts(),
        }

    def _armed(self) -> list[Body]:
        """Return the failures that no call has met yet."""
        names = ("method", "path", "kind", "when", "count")
        query = "SELECT method, path, kind, moment, remaining FROM faults WHERE remaining > 0 ORDER BY id"
        return [dict(zip(names, row, strict=True)) for row in self._store.rows(query)]

    def _reset(self, body: Body) -> Body:
        kept = {name: self._store.meta(name) for name in KEPT_BY_RESET}
        self._store.clear()
        for name, value in kept.items():
            self._store.set_meta(name, value)
        platform.register(self._store, self._hooks.endpoints)
        return {"reset": True}

    def _advance(self, body: Body) -> Body:
        offset = int(self._store.meta("clock_offset", "0")) + number(body, "seconds")
        self._store.set_meta("clock_offset", str(offset))
        tick(self._store)
        return {"now": self._store.now()}

    def _fail(self, body: Body) -> Body:
        kind, moment = word(body, "kind", FAULT_KINDS), word(body, "when", {"before", "after"}, default="before")
        method, path = word(body, "method", {"GET", "POST"}, default="POST"), text(body, "path")
        if path and not path.startswith(("/v1/", "/v2/")):
            raise invalid("path must begin with /v1/ or /v2/; without one the next call of any fails", param="path")
        self._store.rows(
            "INSERT INTO faults (method, path, kind, moment, remaining) VALUES (?, ?, ?, ?, ?)",
            method,
            path,
            kind,
            moment,
            number(body, "count", default=1),
        )
        return {"armed": kind, "when": moment}

    def _gate_held(self, body: Body) -> Body:
        return {"held": self._engine.gate.held(number(body, "timeout_s", default=int(HELD_S)))}

    def _gate_open(self, body: Body) -> Body:
        return {"let_go": self._engine.gate.open()}

    def _key(self, body: Body) -> Body:
        """Say what a restricted key may do."""
        given = {name: str(value) for name, value in body.items() if name != "key"}
        permissions.restrict(self._store, text(body, "key"), given)
        return {"key": text(body, "key"), **given}

    def _webhooks(self, body: Body) -> Body:
        kind = word(body, "kind", WEBHOOK_KINDS)
        seconds = number(body, "seconds", default=2)
        count = number(body, "count", default=1)
        self._store.rows("INSERT INTO policies (kind, remaining, value) VALUES (?, ?, ?)", kind, count, seconds)
        return {"next": kind, "count": count}

    def _endpoint(self, body: Body) -> Body:
        """Switch an endpoint off, narrow what it hears (`events`: names with commas), or give it another version."""
        name = word(body, "endpoint", set(platform.ENDPOINTS))
        kept = self._store.find(self._store.meta(f"endpoint:{name}"))
        if kept is None:
            raise Refusal(404, "", f"This stand-in has no such endpoint: {name}")
        if text(body, "events"):
            kept["enabled_events"] = text(body, "events").split(",")
        if "status" in body:
            kept["status"] = word(body, "status", {"enabled", "disabled"})
        if kept["object"] == "webhook_endpoint":
            kept["api_version"] = text(body, "api_version") or cast("str", kept["api_version"] or API_VERSION)
        return self._store.put(str(kept["object"]), kept)

    def _platform(self, body: Body) -> Body:
        for name in body:
            if name in PLATFORM_NUMBERS:
                self._store.set_meta(name, str(number(body, name)))
            else:
                self._store.set_meta(name, "" if body[name] is False else str(body[name]))
        return {"platform": True}
