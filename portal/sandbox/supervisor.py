"""The whole pool under one parent: servers, stand-in, portal, gateways, worker, beat and nodes.

Every child dies with the supervisor. A child that dies is started again, which is how the demo heals what
`demo_break` breaks; `restarts=False` makes a death an error instead.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import psycopg

from portal.sandbox import processes, servers, waiting
from portal.sandbox.child import Child
from portal.sandbox.ground import Ground

ROOT = Path(__file__).resolve().parents[2]
GATEWAYS = 2
_CONNECT = "STRIPE_CONNECT_WEBHOOK_SECRET"
_MIGRATION_LOCK = 4_702_111_234
_HOST = "127.0.0.1"
_SERVERS = {"postgres": servers.start_postgres, "valkey": servers.start_valkey}


class Stack:
    """The processes of one pool in one folder: `start` them, `tend` them, `stop` them."""

    def __init__(self, ground: Ground, *, port: int, settings: Mapping[str, str] | None = None) -> None:
        self.ground = ground
        self.folder = ground.folder
        self.ports = ground.ports() | {"portal": port}
        self.children: dict[str, Child] = {}
        self._servers: dict[str, servers.Server] = {}
        self._settings = dict(settings or {})

    @property
    def public_url(self) -> str:
        """Return where the portal is."""
        return f"http://{_HOST}:{self.ports['portal']}"

    @property
    def gateway_url(self) -> str:
        """Return where /v1 is."""
        return f"http://{_HOST}:{self.ports['gateway']}"

    @property
    def stripe_url(self) -> str:
        """Return where the Stripe stand-in is."""
        return f"http://{_HOST}:{self.ports['stripe']}"

    @property
    def environ(self) -> dict[str, str]:
        """Return the environment of our children."""
        ours = {
            **self.ground.secrets(),
            "DJANGO_SETTINGS_MODULE": "portal.settings.local",
            "POOLHOUSE_MODE": "local",
            "PYTHONPATH": f"{ROOT}:{ROOT / 'agent'}",
            "PYTHONUNBUFFERED": "1",
            "NO_PROXY": "127.0.0.1,localhost",
            "DATABASE_URL": f"postgresql://poolhouse@{_HOST}:{self.ports['postgres']}/poolhouse",
            "DATABASE_DIRECT_URL": f"postgresql://poolhouse@{_HOST}:{self.ports['postgres']}/poolhouse",
            "REDIS_URL": f"redis://{_HOST}:{self.ports['valkey']}/0",
            "PUBLIC_URL": self.public_url,
            "GATEWAY_URL": self.gateway_url,
            "STRIPE_API_BASE": self.stripe_url,
            "EMAIL_URL": f"file://{self.folder / 'mail'}",
            **self._settings,
        }
        inherited = {name: value for name, value in os.environ.items() if name.removesuffix("_FILE") not in ours}
        return inherited | ours

    def start(self) -> None:
        """Start everything but the nodes. Raises ServerDidNotStart, ChildDied, TookTooLong."""
        self.start_servers()
        self.migrate()
        self.start_stripe()
        self.start_portal()
        for index in range(GATEWAYS):
            self.start_gateway(index)
        self.start_tasks()

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
        self.wait_for("stripe", lambda: not processes.is_free(self.ports["stripe"]))

    def start_portal(self) -> None:
        """Start the portal and wait until it is ready."""
        arguments = ["--host", _HOST, "--port", str(self.ports["portal"]), "--no-access-log", "--no-proxy-headers"]
        self._start("portal", ["-m", "uvicorn", "portal.asgi:application", *arguments])
        self.wait_for("portal", lambda: waiting.answers(f"{self.public_url}/readyz"))

    def start_gateway(self, index: int) -> None:
        """Start one gateway process and wait until it has its peer socket."""
        peers = self.folder / "peers"
        peers.mkdir(exist_ok=True)
        peer = peers / f"gateway-{index}.sock"
        peer.unlink(missing_ok=True)
        environ = {
            "DJANGO_SETTINGS_MODULE": "portal.settings.gateway",
            "GATEWAY_INDEX": str(index),
            "GATEWAY_BIND": f"{_HOST}:{self.ports['gateway']}",
            "GATEWAY_SPOOL_DIR": str(self.folder / "spool"),
            "GATEWAY_PEER_DIR": str(peers),
            "GATEWAY_DRAIN_S": "5",
        }
        (self.folder / "spool").mkdir(exist_ok=True)
        self._start(f"gateway-{index}", ["-m", "portal.gateway"], environ)
        self.wait_for(f"gateway-{index}", peer.exists)
        self.wait_for(f"gateway-{index}", lambda: waiting.answers(f"{self.gateway_url}/healthz"))

    def start_tasks(self) -> None:
        """Start the worker and the beat."""
        celery = ["-m", "celery", "-A", "portal.celery"]
        quiet = ["--loglevel", "INFO", "--without-gossip", "--without-mingle", "--without-heartbeat"]
        self._start("worker", [*celery, "worker", "--concurrency", "2", "-O", "fair", *quiet])
        self._start("beat", [*celery, "beat", "--loglevel", "INFO"])

    def start_node(self, name: str, argv: list[str], environ: Mapping[str, str] | None = None) -> None:
        """Start an agent that has joined."""
        self._start(name, argv, environ)

    def run(self, argv: list[str], *, timeout_s: float, stdin: str = "") -> str:
        """Run one of our Python programs to its end and return what it printed. Raises CommandFailed."""
        try:
            done = subprocess.run(
                [sys.executable, *argv],
                env=self.environ,
                cwd=ROOT,
                input=stdin,
                capture_output=True,
                text=True,
                check=False,
                timeout=timeout_s,
            )
        except subprocess.TimeoutExpired as error:
            raise CommandFailed(f"{' '.join(argv)}: not done after {timeout_s:.0f} s") from error
        if done.returncode != 0:
            raise CommandFailed(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stderr.strip()[-3000:]}")
        return done.stdout

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


class CommandFailed(RuntimeError):
    """A step of the demo ended with an error; the message holds what it said."""
