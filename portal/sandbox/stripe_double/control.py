"""The control API below `/_double/`: time, failures, the platform's balance, accounts, banks and webhooks."""

from collections.abc import Callable

from portal.sandbox.stripe_double import accounts, balances, buying, transfers
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid
from portal.sandbox.stripe_double.hooks import Hooks, described
from portal.sandbox.stripe_double.store import Store

FAULT_KINDS = frozenset({"timeout", "reset", "500", "429", "409"})
WEBHOOK_KINDS = frozenset({"duplicate", "reorder", "delay", "drop"})
KEPT_BY_RESET = ("is_live", "currency")


class Control:
    """What a test or the demo may do to the stand-in that no customer of Stripe could."""

    def __init__(self, store: Store, hooks: Hooks, counts: Callable[[], Body]) -> None:
        self._store = store
        self._hooks = hooks
        self._counts = counts
        self._calls: dict[str, Callable[[Body], Body]] = {
            "state": self._state,
            "reset": self._reset,
            "clock/advance": self._advance,
            "fail": self._fail,
            "drain": self._drain,
            "fund": self._fund,
            "account": self._account,
            "reverse": self._reverse,
            "settle": self._settle,
            "bank/run": self._bank_run,
            "bank/end": self._bank_end,
            "webhooks": self._webhooks,
            "platform": self._platform,
        }

    def handle(self, name: str, body: Body) -> Body:
        """Do what `name` says. Raises Refusal."""
        call = self._calls.get(name)
        if call is None:
            raise Refusal(404, "", f"No such control: {name}. Known: {', '.join(sorted(self._calls))}")
        with self._store.transaction():
            return call(body)

    def _state(self, body: Body) -> Body:
        return {
            "now": self._store.now(),
            "pending_webhooks": [described(one) for one in self._hooks.pending()],
            **self._counts(),
        }

    def _reset(self, body: Body) -> Body:
        kept = {name: self._store.meta(name) for name in KEPT_BY_RESET}
        self._store.clear()
        for name, value in kept.items():
            self._store.set_meta(name, value)
        return {"reset": True}

    def _advance(self, body: Body) -> Body:
        offset = int(self._store.meta("clock_offset", "0")) + _number(body, "seconds")
        self._store.set_meta("clock_offset", str(offset))
        return {"now": self._store.now()}

    def _fail(self, body: Body) -> Body:
        kind, moment = _word(body, "kind", FAULT_KINDS), _word(body, "when", {"before", "after"}, default="before")
        self._store.rows(
            "INSERT INTO faults (method, path, kind, moment, remaining) VALUES (?, ?, ?, ?, ?)",
            str(body.get("method", "POST")),
            str(body.get("path", "")),
            kind,
            moment,
            _number(body, "count", default=1),
        )
        return {"armed": kind, "when": moment}

    def _drain(self, body: Body) -> Body:
        currency = self._currency(body)
        leave = _number(body, "leave", default=0)
        return {"drained": balances.drain(self._store, currency, leave=leave, reference=self._store.new_id("po"))}

    def _fund(self, body: Body) -> Body:
        line = balances.Line("topup", _number(body, "amount"), self._currency(body), self._store.new_id("tu"))
        balances.book(self._store, line)
        return {"funded": line.amount}

    def _account(self, body: Body) -> Body:
        move = _word(body, "move", set(accounts.MOVES))
        account = self._store.get("v2.core.account", str(body.get("account", "")))
        return accounts.change(self._store, account, accounts.MOVES[move])

    def _reverse(self, body: Body) -> Body:
        transfer = self._store.get("transfer", str(body.get("transfer", "")))
        return transfers.reverse(self._store, transfer, amount=_number(body, "amount", default=0))

    def _settle(self, body: Body) -> Body:
        session = self._store.get("checkout.session", str(body.get("session", "")))
        return buying.settle(self._store, session, is_good=body.get("is_good", True) is True)

    def _bank_run(self, body: Body) -> Body:
        return {"payouts": transfers.run_bank_payouts(self._store)}

    def _bank_end(self, body: Body) -> Body:
        account, payout = str(body.get("account", "")), str(body.get("payout", ""))
        return transfers.end_bank_payout(self._store, account, payout, is_good=body.get("is_good", True) is True)

    def _webhooks(self, body: Body) -> Body:
        kind = _word(body, "kind", WEBHOOK_KINDS)
        seconds = _number(body, "seconds", default=2)
        count = _number(body, "count", default=1)
        self._store.rows("INSERT INTO policies (kind, remaining, value) VALUES (?, ?, ?)", kind, count, seconds)
        return {"next": kind, "count": count}

    def _platform(self, body: Body) -> Body:
        for name in ("minimum_balance", "payout_interval", "settlement_s", "platform_unregistered"):
            if name in body:
                self._store.set_meta(name, str(body[name]))
        return {"platform": True}

    def _currency(self, body: Body) -> str:
        return str(body.get("currency") or self._store.meta("currency", "usd"))


def _number(body: Body, name: str, *, default: int | None = None) -> int:
    value = body.get(name, default)
    if isinstance(value, str) and value.lstrip("-").isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise invalid(f"{name} must be a whole number", param=name)
    return value


def _word(body: Body, name: str, allowed: "set[str] | frozenset[str]", *, default: str = "") -> str:
    value = str(body.get(name, default))
    if value not in allowed:
        raise invalid(f"{name} must be one of {', '.join(sorted(allowed))}", param=name)
    return value
