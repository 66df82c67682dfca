"""Answers one API request: authenticate, check the parameters, honour the idempotency key, act, check the answer."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import cast

from portal.sandbox.stripe_double import permissions
from portal.sandbox.stripe_double.api import Call, Route, expanded, resolve
from portal.sandbox.stripe_double.checks import check
from portal.sandbox.stripe_double.events import API_VERSION
from portal.sandbox.stripe_double.faults import Body, Refusal
from portal.sandbox.stripe_double.keys import Keys, fingerprint
from portal.sandbox.stripe_double.schema import ResponseChecker
from portal.sandbox.stripe_double.store import Store
from portal.sandbox.stripe_double.wire import read_form, read_json

log = logging.getLogger(__name__)
_OK = 200
HOLD = "hold"
HELD_S = 60.0
_TURNED_AWAY = frozenset({"429", "409"})
_PREFIXES = ("sk_test_", "rk_test_", "sk_live_", "rk_live_")


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request as it came; header names are lower case."""

    method: str
    path: str
    query: str
    raw: bytes
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Answer:
    """What to send; `ending` is a failure that the caller gets instead: lost, or turned away."""

    status: int
    body: Body
    headers: dict[str, str] = field(default_factory=dict)
    ending: str = ""


@dataclass(frozen=True, slots=True)
class _Fault:
    kind: str
    moment: str


class Gate:
    """Holds requests in the middle until somebody says go: a caller can be killed, or met by another, meanwhile."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._held: list[str] = []
        self._opened = 0

    def wait(self, path: str) -> None:
        """Hold this request until the gate opens."""
        with self._change:
            seen = self._opened
            self._held.append(path)
            self._change.notify_all()
            self._change.wait_for(lambda: self._opened > seen, HELD_S)
            self._held.remove(path)

    def open(self) -> list[str]:
        """Let go what is held; return its paths."""
        with self._change:
            held = list(self._held)
            self._opened += 1
            self._change.notify_all()
            return held

    def held(self, timeout_s: float) -> list[str]:
        """Wait until something is held, at most this long; return its paths."""
        with self._change:
            self._change.wait_for(lambda: bool(self._held), timeout_s)
            return list(self._held)


class Engine:
    """The API of one store."""

    def __init__(self, store: Store, *, base: str, checker: ResponseChecker | None) -> None:
        self._store = store
        self._base = base
        self._checker = checker
        self._keys = Keys(store)
        self._lock = threading.Lock()
        self.gate = Gate()
        self._requests = 0
        self._responses = 0
        self.violations: list[str] = []

    def counts(self) -> Body:
        """Return how much was checked and what was wrong."""
        return {"requests": self._requests, "responses": self._responses, "violations": list(self.violations)}

    def summary(self, unchecked_because: str) -> str:
        """Return one line for the log."""
        line = f"{self._requests} requests checked, {len(self.violations)} violations"
        if unchecked_because:
            return f"{line}; responses not checked: {unchecked_because}"
        return f"{line}; {self._responses} responses checked against the official document"

    def answer(self, request: Request) -> Answer:
        """Answer one request."""
        headers = {"Request-Id": self._store.new_id("req"), "Stripe-Version": API_VERSION}
        try:
            answer = self._answer(request, headers["Request-Id"])
            if answer.ending in _TURNED_AWAY:
                raise _turned_away(answer.ending)
        except Refusal as refusal:
            answer = Answer(refusal.status, refusal.body(), refusal.headers)
        return Answer(answer.status, answer.body, {**headers, **answer.headers}, answer.ending)

    def _answer(self, request: Request, request_id: str) -> Answer:
        key = _authenticate(request)
        route, names = resolve(request.method, request.path)
        permissions.check(self._store, key, request.method, request.path)
        params, page_token = self._params(route, request)
        call = Call(
            store=self._store,
            base=self._base,
            path=request.path,
            names=names,
            params=params,
            account=request.headers.get("stripe-account", ""),
            is_live="_live_" in key,
            key=request.headers.get("idempotency-key", ""),
            request_id=request_id,
            page_token=page_token,
        )
        fault = self._fault(request)
        if fault and fault.moment == "before" and fault.kind in _TURNED_AWAY:
            raise _turned_away(fault.kind)
        if request.method != "POST" or not call.key:
            return self._under(fault, call.path, lambda: self._do(route, call))
        return self._once(route, call, fault)

    def _once(self, route: Route, call: Call, fault: _Fault | None) -> Answer:
        request = fingerprint(route.method, call.path, call.params)
        kept = self._keys.begin(account=call.account, key=call.key, request=request)
        if kept is not None:
            again = Answer(kept.status, kept.body, {"Idempotent-Replayed": "true"})
            return self._under(fault, call.path, lambda: again)
        answer: Answer | None = None
        try:
            answer = self._under(fault, call.path, lambda: self._do(route, call))
        finally:  # whatever ended it, the key may be tried again
            if answer is None:
                self._keys.forget(account=call.account, key=call.key)
        never_began = fault is not None and fault.moment == "before" and fault.kind in {"timeout", "reset"}
        if never_began or (route.is_v2 and answer.status != _OK):
            self._keys.forget(account=call.account, key=call.key)
        else:
            self._keys.keep(account=call.account, key=call.key, status=answer.status, body=answer.body)
        return answer

    def _under(self, fault: _Fault | None, path: str, act: Callable[[], Answer]) -> Answer:
        """Act, with the failure that is due before or after it."""
        if fault and fault.moment == "before":
            if fault.kind != HOLD:
                return _lost(fault)
            self.gate.wait(path)
        answer = act()
        if fault and fault.moment == "after":
            if fault.kind != HOLD:
                return _lost(fault) if fault.kind == "500" else replace(answer, ending=fault.kind)
            self.gate.wait(path)
        return answer

    def _do(self, route: Route, call: Call) -> Answer:
        """Run the call in one transaction; a refusal undoes what it did, unless it says that it is kept."""
        kept: Refusal | None = None
        body: Body = {}
        try:
            with self._store.transaction():
                try:
                    body = route.handler(call)
                    body = expanded(self._store, body, cast("list[object]", call.items("expand")))
                except Refusal as refusal:
                    if not refusal.is_kept:
                        raise
                    kept = refusal
        except Refusal as refusal:
            kept = refusal
        if kept is not None:
            return Answer(kept.status, kept.body(), kept.headers)
        self._check_answer(route, call.path, body)
        return Answer(_OK, body)

    def _params(self, route: Route, request: Request) -> tuple[Body, str]:
        with self._lock:
            self._requests += 1
        version = request.headers.get("stripe-version", "")
        if version and version != API_VERSION:
            self._violation(f"{request.method} {request.path}: Stripe-Version is {version}")
        if request.method == "POST" and not request.headers.get("idempotency-key"):
            self._violation(f"POST {request.path}: no Idempotency-Key")
        try:
            is_json = route.is_v2 and request.method == "POST"
            body = read_json(request.raw) if is_json else read_form(request.query + "&" + request.raw.decode())
            # v2 lists hand their next page out as an address, so this parameter is in no type.
            token = str(body.pop("page", "")) if route.is_v2 and not is_json else ""
            return check(route.params, body, is_text=not is_json), token
        except Refusal as refusal:
            self._violation(f"{request.method} {request.path}: {refusal.message}")
            raise

    def _check_answer(self, route: Route, path: str, body: Body) -> None:
        if self._checker is None:
            return
        with self._lock:
            self._responses += 1
        problem = self._checker.problem(method=route.method, path=path, body=body)
        if problem:
            self._violation(f"answer: {problem}")

    def _violation(self, text: str) -> None:
        log.error("double.violation", extra={"violation": text})
        with self._lock:
            self.violations.append(text)

    def _fault(self, request: Request) -> _Fault | None:
        """Take the first armed failure that fits this request."""
        with self._store.transaction():
            found = self._store.rows(
                "SELECT id, method, path, kind, moment FROM faults WHERE remaining > 0 ORDER BY id"
            )
            for number, method, path, kind, moment in found:
                if method == request.method and request.path.startswith(str(path)):
                    self._store.rows("UPDATE faults SET remaining = remaining - 1 WHERE id = ?", number)
                    return _Fault(str(kind), str(moment))
        return None


def _authenticate(request: Request) -> str:
    """Return the key. Raises Refusal."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    if scheme != "Bearer" or not key.startswith(_PREFIXES):
        raise Refusal(401, "", "Invalid API Key provided.", is_stored=False)
    return key


def _lost(fault: _Fault) -> Answer:
    error = {"type": "api_error", "message": "An unknown error occurred."}
    if fault.kind == "500":
        return Answer(500, {"error": error}, {"Stripe-Should-Retry": "false"})
    return Answer(500, cast("Body", {"error": error}), ending=fault.kind)


def _turned_away(kind: str) -> Refusal:
    if kind == "429":
        return Refusal(429, "rate_limit", "Too many requests.", type="invalid_request_error", is_stored=False)
    return Refusal(409, "lock_timeout", "The object is locked by another request.", is_stored=False)
