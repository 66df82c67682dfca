"""Where ours is measured: embedded servers, a paying customer, a priced model, and one real gateway process.

Django must not be set up before `servers` has run: it reads the addresses it exports.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING

from portal.sandbox import processes as children
from portal.sandbox import servers as embedded
from tests.bench import processes

if TYPE_CHECKING:
    from tests.integration.gateway.pool import Machine, Pool

# Limits are on and are never reached; the customer never runs dry.
_LIMITS = {
    "GATEWAY_KEY_REQUESTS_PER_MINUTE": "100000000",
    "GATEWAY_KEY_TOKENS_PER_MINUTE": "1000000000000",
    "GATEWAY_KEY_CONCURRENCY": "1000000",
}
_CREDIT_UNITS = 1_000_000
_CONCURRENCY = 4_096


@contextmanager
def servers(folder: Path) -> Iterator[None]:
    """Run PostgreSQL and Valkey on the load's core, and make Django use them."""
    with processes.on_core(processes.LOAD_CORE):
        postgres = embedded.start_postgres(folder / "postgres", is_durable=False)
        valkey = embedded.start_valkey(folder / "valkey")
    try:
        os.environ["DATABASE_URL"] = embedded.create_database(postgres.url, "bench")
        os.environ["REDIS_URL"] = valkey.url
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
        yield
    finally:
        valkey.stop()
        postgres.stop()


def new_pool(folder: Path) -> "Pool":
    """Set Django up, migrate, and return a pool with a rich customer. Call it once."""
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0, interactive=False)
    from portal.core.money import NANO_PER_UNIT
    from tests.integration.gateway.pool import Pool

    pool = Pool(folder)
    pool.customer = pool.organization(NANO_PER_UNIT * _CREDIT_UNITS)
    pool.key = pool.new_key(pool.customer)
    return pool


@dataclass
class Ours:
    """One gateway process on its core, and the nodes that answer for it on the other."""

    pool: "Pool"
    folder: Path
    machines: list["Machine"] = field(default_factory=list)
    nodes: list[Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        with processes.on_core(processes.GATEWAY_CORE):
            self.gateway = self.pool.gateway(**_LIMITS, LOG_LEVEL="WARNING")
        self.pid = self.gateway.process.pid

    @property
    def url(self) -> str:
        """Where it listens."""
        return self.gateway.url

    def connect(
        self, *, nodes: int = 1, batch: int = 4, tokens: int = 100, gap_s: float = 0.01, is_prompt: bool = False
    ) -> None:
        """Replace the stand-in nodes; returns once the gateway routes to them."""
        self.disconnect()
        self._await_tunnels(0)
        while len(self.machines) < nodes:
            self.machines.append(self.pool.machine(concurrency=_CONCURRENCY))
        sessions = [machine.session() for machine in self.machines[:nodes]]
        file = self.folder / "sessions"
        file.write_text("\n".join(sessions), encoding="utf-8")
        options = ["--tokens-file", file, "--tokens", tokens, "--gap", gap_s, "--batch", batch]
        options += ["--prompt"] if is_prompt else []
        argv = [sys.executable, "-m", "tests.bench.tunnel_node", self.gateway.port, *options]
        self.nodes.append(self.start(argv, "node"))
        self._await_tunnels(nodes)

    def disconnect(self) -> None:
        """Stop the stand-in nodes."""
        for node in self.nodes:
            children.stop(node)
        self.nodes.clear()

    def start(self, argv: Sequence[object], name: str, **environ: str) -> Popen[bytes]:
        """Start a program on the load's core."""
        with processes.on_core(processes.LOAD_CORE):
            given = {**self.gateway.environment(), "DJANGO_SETTINGS_MODULE": "portal.settings.gateway", **environ}
            return children.start([str(part) for part in argv], log=self.folder / f"{name}.log", environ=given)

    def stop(self) -> None:
        """Stop everything of ours."""
        self.disconnect()
        self.pool.stop()

    def _await_tunnels(self, wanted: int) -> None:
        from portal.nodes.models import Tunnel
        from tests.integration.gateway.pool import until

        until(f"{wanted} tunnels are claimed", lambda: Tunnel.objects.count() == wanted, 200.0)
        time.sleep(1.0)  # the gateway reads the new generations within a second
