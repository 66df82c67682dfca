"""The whole pool under one parent: servers, stand-in, portal, gateways, worker, beat and nodes.

Every child dies with the supervisor. `tend` starts again what died: so the demo heals what `demo_break` breaks.
"""

import hashlib
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg

from portal.sandbox import processes, servers, waiting
from portal.sandbox.child import Child
from portal.sandbox.ground import Ground
from portal.sandbox.surroundings import HOST, Surroundings

GATEWAYS = 2
_LONGEST_SOCKET_FOLDER = 80
_CONNECT = "STRIPE_CONNECT_WEBHOOK_SECRET"
_MIGRATION_LOCK = 4_702_111_234
_SERVERS: dict[str, Callable[..., servers.Server]] = {
    "postgres": servers.start_postgres,
    "valkey": servers.start_valkey,
}


class Stack(Surroundings):
    """The processes of one pool in one folder: `start` them, `tend` them, `stop` them."""

    def __init__(self, ground: Ground, *, port: int, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(ground, ports=ground.ports() | {"portal": port}, settings=settings or {})
        self.children: dict[str, Child] = {}
        self._servers: dict[str, servers.Server] = {}

    def start(self) -> None:
        """Start everything but the nodes. Raises ServerDidNotStart, ChildDied, TookTooLong."""
        self.start_servers()
        self.migrate()
        self.start_stripe()
        self.start_portal()
        self.start_gateways()
        self.start_tasks()
        self._wait_until_ready()

    def start_servers(self) -> None:
        """Start PostgreSQL and Valkey and make the database."""
        (self.folder / "logs").mkdir(parents=True, exist_ok=True)
        for name, start in _SERVERS.items():
            self._servers[name] = start(self.folder / name, port=self.ports[name])
        servers.create_database(self._servers["postgres"].url, "poolhouse")

    def migrate(self) -> None:
        """Bring the schema up to date, alone: a second migration waits for the lock."""
        with psycopg.connect(self.environ["DATABASE_URL"], autocommit=True) as connection:
            connection.execute("SELECT pg_advisory_lock(%s)", [_MIGRATION_LOCK])
            self.run(["manage.py", "migrate", "--verbosity", "0"], timeout_s=120)

    def start_stripe(self) -> None:
        """Start the Stripe stand-in; it sends its webhooks to the portal."""
        secrets, base = self.ground.secrets(), f"{self.public_url}/webhooks/stripe"
        arguments = ["--port", str(self.ports["stripe"]), "--db", str(self.folder / "stripe.sqlite3")]
        arguments += ["--webhook", f"{base}/", "--secret", secrets["STRIPE_WEBHOOK_SECRET"]]
        arguments += ["--connect-webhook", f"{base}/connect/", "--connect-secret", secrets[_CONNECT]]
        arguments += ["--events-webhook", f"{base}/events/", "--events-secret", secrets["STRIPE_EVENTS_SECRET"]]
        self._start("stripe", ["-m", "portal.sandbox.stripe_double", *arguments])

    def start_portal(self) -> None:
        """Start the portal."""
        arguments = ["--host", HOST, "--port", str(self.ports["portal"]), "--no-access-log", "--no-proxy-headers"]
        self._start("portal", ["-m", "uvicorn", "portal.asgi:application", *arguments])

    def start_gateways(self) -> None:
        """Start the gateway processes."""
        spool, peers = self.folder / "spool", self._peer_folder()
        spool.mkdir(exist_ok=True)
        for index in range(GATEWAYS):
            self._peer(index).unlink(missing_ok=True)
            environ = {
                "DJANGO_SETTINGS_MODULE": "portal.settings.gateway",
                "GATEWAY_INDEX": str(index),
                "GATEWAY_BIND": f"{HOST}:{self.ports['gateway']}",
                "GATEWAY_SPOOL_DIR": str(spool),
                "GATEWAY_PEER_DIR": str(peers),
                "GATEWAY_DRAIN_S": "5",
            }
            self._start(f"gateway-{index}", ["-m", "portal.gateway"], environ)

    def _wait_until_ready(self) -> None:
        self.wait_for("stripe", lambda: not processes.is_free(self.ports["stripe"]))
        self.wait_for("portal", lambda: waiting.answers(f"{self.public_url}/readyz"))
        for index in range(GATEWAYS):
            self.wait_for(f"gateway-{index}", self._peer(index).exists)
        self.wait_for("gateway-0", lambda: waiting.answers(f"{self.gateway_url}/readyz"))

    def _peer(self, index: int) -> Path:
        """Return the socket that a gateway process has once it is up."""
        return self._peer_folder() / f"gateway-{index}.sock"

    def _peer_folder(self) -> Path:
        """Return a folder for Unix sockets, whose paths may not be longer than the kernel takes."""
        folder = self.folder / "peers"
        if len(str(folder)) > _LONGEST_SOCKET_FOLDER:
            name = hashlib.sha256(str(self.folder).encode()).hexdigest()[:12]
            folder = Path(tempfile.gettempdir()) / f"poolhouse-{os.getuid()}-{name}"
        folder.mkdir(exist_ok=True, mode=0o700)
        return folder

    def start_tasks(self) -> None:
        """Start the worker and the beat."""
        celery = ["-m", "celery", "-A", "portal.celery"]
        quiet = ["--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        self._start("worker", [*celery, "worker", "--concurrency", "2", "-O", "fair", *quiet])
        self._start("beat", [*celery, "beat", "--loglevel", "INFO"])

    def start_node(self, name: str, argv: list[str], environ: Mapping[str, str] | None = None) -> None:
        """Start an agent that has joined."""
        self._start(name, argv, environ)

    def wait_for(self, name: str, probe: Callable[[], bool], *, timeout_s: float = 60.0) -> None:
        """Wait until the child's probe is true; its death ends the wait."""
        child = self.children[name]
        try:
            waiting.until(f"{name} is ready", probe, timeout_s=timeout_s, check=child.require_alive)
        except waiting.TookTooLong as error:
            raise waiting.TookTooLong(f"{error}; the end of {child.log}:\n{child.tail()}") from error

    def tend(self) -> list[str]:
        """Start again what has died and return the names."""
        healed = self._tend_servers()
        for child in self.children.values():
            if child.pid is None:
                child.restart()
                healed.append(child.name)
        if healed:
            self.record()
        return healed

    def _tend_servers(self) -> list[str]:
        healed = []
        for name, start in _SERVERS.items():
            if self._servers[name].process.poll() is not None:
                self._servers[name] = start(self.folder / name, port=self.ports[name])
                healed.append(name)
        return healed

    def require_all_alive(self) -> None:
        """Raise ChildDied where any child has ended."""
        for child in self.children.values():
            child.require_alive()

    def record(self, **more: Any) -> None:
        """Write down what runs where, for `demo_break` and for the next run."""
        pids = {name: child.pid for name, child in self.children.items() if child.pid is not None}
        pids |= {name: server.process.pid for name, server in self._servers.items()}
        known = {key: value for key, value in self.ground.read("run").items() if key not in {"names", "processes"}}
        known |= {"public_url": self.public_url, "gateway_url": self.gateway_url, "stripe_url": self.stripe_url, **more}
        known.pop("supervisor", None)
        self.ground.record_running(os.getpid(), pids, **known)

    def stop(self) -> None:
        """Stop everything in the order in which nothing is lost: nodes, gateways, tasks, portal, stand-in, servers."""
        for child in reversed(list(self.children.values())):
            if child.process is not None and child.process.poll() is None:
                child.process.send_signal(child.stop_signal)
        for child in reversed(list(self.children.values())):
            child.stop()
        for server in reversed(list(self._servers.values())):
            server.stop()

    def _start(self, name: str, argv: list[str], environ: Mapping[str, str] | None = None) -> None:
        child = Child(
            name=name,
            argv=[sys.executable, *argv],
            environ={**self.environ, **(environ or {})},
            log=self.folder / "logs" / f"{name}.log",
            stop_signal=signal.SIGTERM,
        )
        child.start()
        self.children[name] = child
        self.record()
