"""Delivers webhooks: real signatures, retried until 2xx, by a thread or one by one when a test says so."""

import json
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from threading import Event, Thread

import httpx
from stripe import WebhookSignature

from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.store import Store

log = logging.getLogger(__name__)
_POLL_S = 0.1
_MOST_TRIES = 20
_LONGEST_WAIT_S = 60.0
_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where events of one kind go, and the secret that signs them."""

    url: str
    secret: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """One signed webhook, ready to be sent."""

    number: int
    endpoint: str
    url: str
    type: str
    body: bytes
    headers: dict[str, str]


def signed(body: bytes, secret: str, *, at: int) -> str:
    """Return the `Stripe-Signature` header."""
    signature = WebhookSignature._compute_signature(f"{at}.{body.decode()}", secret)  # type: ignore[no-untyped-call]  # noqa: SLF001  the SDK has no public signer
    return f"t={at},v1={signature}"


class Hooks:
    """The deliveries of one store."""

    def __init__(self, store: Store, endpoints: Mapping[str, Endpoint]) -> None:
        self._store = store
        self.endpoints = dict(endpoints)
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Deliver in the background."""
        self._thread = Thread(target=self._run, name="stripe-double-hooks", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop delivering and wait."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(_TIMEOUT_S)

    def pending(self, *, is_due: bool = False) -> list[Delivery]:
        """Return what is not delivered yet, oldest first."""
        found = self._store.rows(
            "SELECT id, event, endpoint FROM deliveries WHERE is_done = 0 AND due <= ? ORDER BY due, id",
            time.time() if is_due else float("inf"),
        )
        made = [self._delivery(int(str(number)), str(event), str(name)) for number, event, name in found]
        return [delivery for delivery in made if delivery is not None]

    def _delivery(self, number: int, event: str, name: str) -> Delivery | None:
        endpoint, body = self.endpoints.get(name), self._store.find(event)
        if endpoint is None or body is None:
            self.done(number)
            return None
        raw = json.dumps(body).encode()
        headers = {
            "Content-Type": "application/json; charset=utf-8",
            "Stripe-Signature": signed(raw, endpoint.secret, at=int(time.time())),
        }
        return Delivery(number, name, endpoint.url, str(body["type"]), raw, headers)

    def done(self, number: int) -> None:
        """Mark one as delivered."""
        self._store.rows("UPDATE deliveries SET is_done = 1 WHERE id = ?", number)

    def failed(self, number: int) -> None:
        """Try again later, with growing pauses; give up after twenty tries."""
        self._store.rows(
            "UPDATE deliveries SET tries = tries + 1, due = ? + MIN(?, 0.5 * (1 << MIN(tries, 10))),"
            " is_done = CASE WHEN tries + 1 >= ? THEN 1 ELSE 0 END WHERE id = ?",
            time.time(),
            _LONGEST_WAIT_S,
            _MOST_TRIES,
            number,
        )

    def _run(self) -> None:
        with httpx.Client(timeout=_TIMEOUT_S, trust_env=False) as client:
            while not self._stop.wait(_POLL_S):
                for delivery in self.pending(is_due=True):
                    self._send(client, delivery)

    def _send(self, client: httpx.Client, delivery: Delivery) -> None:
        try:
            answer = client.post(delivery.url, content=delivery.body, headers=delivery.headers)
        except httpx.HTTPError as error:
            log.info("double.webhook_failed", extra={"type": delivery.type, "reason": type(error).__name__})
            self.failed(delivery.number)
            return
        if answer.is_success:
            self.done(delivery.number)
        else:
            log.info("double.webhook_refused", extra={"type": delivery.type, "status": answer.status_code})
            self.failed(delivery.number)


def described(delivery: Delivery) -> Body:
    """Return what the control API says about a delivery."""
    return {"id": delivery.number, "endpoint": delivery.endpoint, "type": delivery.type}
