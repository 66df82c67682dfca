"""The HTTP side: reads a request, checks it, runs it in one transaction, keeps the answer and sends it."""

import contextlib
import json
import logging
import socket
import struct
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

from portal.sandbox.stripe_double import (
    accounts,
    accounts_v1,
    balances,
    banks,
    buying,
    charges,
    customers,
    disputes,
    intents,
    invoices,
    pages,
    platform,
    reading,
    refunds,
    transfers,
    warnings,
)
from portal.sandbox.stripe_double.control import Control
from portal.sandbox.stripe_double.engine import Answer, Engine, Request
from portal.sandbox.stripe_double.faults import Body, Refusal
from portal.sandbox.stripe_double.hooks import Delivery, Endpoint, Hooks
from portal.sandbox.stripe_double.schema import load
from portal.sandbox.stripe_double.store import Store
from portal.sandbox.stripe_double.wire import read_form, read_json

__all__ = ["CALLS", "StripeDouble"]

# Importing a module puts its calls into the table.
CALLS = (
    accounts,
    accounts_v1,
    balances,
    banks,
    buying,
    charges,
    customers,
    disputes,
    intents,
    invoices,
    platform,
    reading,
    refunds,
    transfers,
    warnings,
)
log = logging.getLogger(__name__)
HANG_S = 120.0
_POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class Options:
    """How to run: port 0 takes a free one; without `db` everything stays in memory."""

    port: int = 0
    db: Path | None = None
    seed: int | None = None
    currency: str = "usd"
    is_live: bool = False
    has_sender: bool = True
    spec: str = ""
    endpoints: dict[str, Endpoint] = field(default_factory=dict)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    double: "StripeDouble"

    def handle_error(self, request: object, client_address: object) -> None:
        """A caller that hung up is part of the play; anything else is logged with its trace."""
        error = sys.exception()
        if not isinstance(error, ConnectionError):
            log.error("double.request_failed", exc_info=error)


class StripeDouble:
    """A running stand-in. `control` does what `/_double/` does; `pending` and `deliver` let a test move webhooks."""

    def __init__(self, options: Options | None = None) -> None:
        self.options = options or Options()
        self.store = Store(self.options.db, seed=self.options.seed)
        self.store.set_meta("is_live", "1" if self.options.is_live else "0")
        self.store.set_meta("currency", self.options.currency)
        platform.register(self.store, self.options.endpoints)
        self._server = _Server(("127.0.0.1", self.options.port), _Handler)
        self._server.double = self
        self.store.set_meta("base", self.url)
        checker, self.unchecked_because = load(self.options.spec)
        self.engine = Engine(self.store, base=self.url, checker=checker)
        self.hooks = Hooks(self.store, self.options.endpoints)
        self._control = Control(self.store, self.hooks, self.engine)
        self.closing = threading.Event()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_POLL_S,), name="stripe-double", daemon=True
        )

    @property
    def url(self) -> str:
        """The address to put into STRIPE_API_BASE."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def start(self) -> "StripeDouble":
        """Serve in a thread."""
        if self.options.has_sender:
            self.hooks.start()
        self._thread.start()
        return self

    def stop(self) -> str:
        """Stop serving and return what was checked."""
        self.closing.set()
        self.engine.gate.open()
        self.hooks.stop()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)
        self.store.close()
        return self.engine.summary(self.unchecked_because)

    def control(self, name: str, /, **body: object) -> Body:
        """Do what `POST /_double/<name>` does."""
        return self._control.handle(name, dict(body))

    def pending(self) -> list[Delivery]:
        """Return the webhooks that were not delivered yet."""
        return self.hooks.pending()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class names it
        """Keep quiet: the summary counts."""

    def do_GET(self) -> None:
        """Serve a read."""
        self._serve()

    def do_POST(self) -> None:
        """Serve a write."""
        self._serve()

    def _serve(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = urlsplit(self.path).path
        try:
            if path.startswith("/_double/"):
                self._json(200, self.server.double.control(path.removeprefix("/_double/").strip("/"), **_loose(raw)))
            elif path.startswith(pages.PREFIXES):
                self._page(path, raw)
            elif path == "/":
                self._json(200, {"name": "Stripe stand-in", "note": pages.NOTE})
            else:
                self._api(path, raw)
        except Refusal as refusal:
            self._json(refusal.status, refusal.body())

    def _api(self, path: str, raw: bytes) -> None:
        request = Request(
            method=self.command,
            path=path,
            query=urlsplit(self.path).query,
            raw=raw,
            headers={name.lower(): value for name, value in self.headers.items()},
        )
        self._send(self.server.double.engine.answer(request))

    def _send(self, answer: Answer) -> None:
        if answer.ending == "timeout":
            self.server.double.closing.wait(HANG_S)
        if answer.ending in {"timeout", "reset"}:
            self._hang_up()
            return
        self._json(answer.status, answer.body, answer.headers)

    def _hang_up(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        with contextlib.suppress(OSError):
            self.connection.close()

    def _page(self, path: str, raw: bytes) -> None:
        form = read_form(raw.decode("utf-8", "replace")) if self.command == "POST" else None
        with self.server.double.store.transaction():
            page = pages.serve(self.server.double.store, path, form)
        self._write(page.status, page.html.encode(), {"Content-Type": "text/html; charset=utf-8"}, page.location)

    def _json(self, status: int, body: Body, headers: dict[str, str] | None = None) -> None:
        self._write(status, json.dumps(body).encode(), {"Content-Type": "application/json", **(headers or {})})

    def _write(self, status: int, raw: bytes, headers: dict[str, str], location: str = "") -> None:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if location:
                self.send_header("Location", location)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)


def _loose(raw: bytes) -> Body:
    """Read a control body: JSON or a form."""
    return read_json(raw) if raw[:1] in (b"{", b"") else read_form(raw.decode("utf-8", "replace"))
