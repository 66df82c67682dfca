"""The stand-in as a process: it serves, delivers signed webhooks until they are taken, and counts at its end."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from portal.integrations import stripe_webhooks

ROOT = Path(__file__).resolve().parents[3]
HEADERS = {"authorization": "Bearer sk_test_x", "stripe-version": "2026-05-27.dahlia", "idempotency-key": "k"}
TRANSFERS = {
    "configuration": {"recipient": {"capabilities": {"stripe_balance": {"stripe_transfers": {"requested": True}}}}}
}


class Receiver(ThreadingHTTPServer):
    """Refuses the first delivery, takes the next ones."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.taken: list[tuple[bytes, str]] = []
        self.seen = 0
        self.enough = threading.Event()


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def log_message(self, *_: object) -> None:
        """Keep quiet."""

    def do_POST(self) -> None:
        """Refuse once, then take."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen += 1
        is_first = self.server.seen == 1
        self.send_response(500 if is_first else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()
        if not is_first:
            self.server.taken.append((body, self.headers["Stripe-Signature"]))
            if any(json.loads(one)["type"] == "v2.core.account.created" for one, _ in self.server.taken):
                self.server.enough.set()


@pytest.fixture
def receiver():
    """Something that webhooks go to."""
    server = Receiver()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def test_the_process_serves_delivers_and_counts(tmp_path, receiver):
    url = f"http://127.0.0.1:{receiver.server_address[1]}/"
    arguments = ["--port", "0", "--db", str(tmp_path / "double.sqlite"), "--seed", "1"]
    arguments += ["--events-webhook", url, "--events-secret", "whsec_events"]
    child = subprocess.Popen(
        [sys.executable, "-m", "portal.sandbox.stripe_double", *arguments],
        cwd=ROOT,
        env=dict(os.environ),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        base = re.search(r"http://127\.0\.0\.1:\d+", child.stdout.readline()).group()
        assert httpx.get(base, trust_env=False).json()["note"] == "Simulated, no money moves."
        made = httpx.post(
            f"{base}/v2/core/accounts",
            json={"identity": {"country": "DE"}, **TRANSFERS},
            headers=HEADERS,
            trust_env=False,
        )
        assert receiver.enough.wait(30)
    finally:
        child.send_signal(signal.SIGTERM)
        output, _ = child.communicate(timeout=30)

    body, signature = receiver.taken[0]
    event = stripe_webhooks.verify(body=body, signature=signature, secret="whsec_events")
    assert (event.type, event.object_id) == ("v2.core.account.created", made.json()["id"])
    assert (child.returncode, "1 requests checked, 0 violations" in output) == (0, True)
