"""Gateway processes are killed at random moments under load, and nothing is lost, doubled or held for ever."""

import json
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import SystemRandom
from urllib.parse import urlsplit

import pytest
from django.db import connection

from portal.core.money import NANO_PER_UNIT
from portal.metering.services.spool_files import list_spools
from portal.sandbox import servers
from tests.chaos import verdict
from tests.chaos.customers import Customers
from tests.chaos.forge import Forge, ForkedGateway
from tests.fakes import scripts
from tests.fakes.scripted_node import ScriptedNode
from tests.fakes.tcp_proxy import TcpProxy
from tests.integration.gateway.pool import Machine, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

KILLS = int(os.environ.get("KILLS", "1000"))
FAULTS = os.environ.get("FAULTS", "valkey,postgres").split(",")
PAID_NANO = 1_000_000 * NANO_PER_UNIT
TEXT = " ".join(f"word{number}" for number in range(60))
_chance = SystemRandom()


class World:
    """Two gateways with a node each, over servers that may be broken as well."""

    def __init__(self, pool: Pool, forge: Forge, environ: dict[str, str]) -> None:
        self.pool = pool
        self.gateways = [
            ForkedGateway(index=index, folder=pool.folder, environ=environ, forge=forge) for index in (20, 21)
        ]
        self.machines: list[Machine] = []
        self.nodes: dict[int, ScriptedNode] = {}

    def start(self) -> None:
        for gateway in self.gateways:
            self.machines.append(self.pool.machine(concurrency=64))
            gateway.start()
            self._connect(gateway)

    def kill_one(self) -> None:
        """Kill a process at a random moment, start it again and let its node come back."""
        time.sleep(_chance.uniform(0.02, 0.5))
        gateway = _chance.choice(self.gateways)
        gateway.kill()
        self.nodes.pop(gateway.index).stop()
        gateway.start()
        self._connect(gateway)

    def stop(self) -> None:
        for gateway in self.gateways:
            if gateway.is_alive:
                gateway.stop()

    def _connect(self, gateway: ForkedGateway) -> None:
        machine = self.machines[self.gateways.index(gateway)]
        self.nodes[gateway.index] = self.pool.connect(machine, gateway, scripts.honest(TEXT, pause_s=0.02))
        self.pool.nodes.clear()


@contextmanager
def _world(pool: Pool, *, environ: dict[str, str]) -> Iterator[World]:
    base = ForkedGateway(index=0, folder=pool.folder).environment() | environ
    forge = Forge(base, pool.folder / "forge.log")
    world = World(pool, forge, {"GATEWAY_KEY_REQUESTS_PER_MINUTE": "1000000"})
    try:
        world.start()
        yield world
    finally:
        for node in world.nodes.values():
            node.stop()
        world.stop()
        forge.close()


def _chaos(pool: Pool, kills: int, faults: "Faults | None" = None) -> verdict.Verdict:
    began = time.monotonic()
    customer = pool.organization(PAID_NANO)
    key = pool.new_key(customer)
    with _world(pool, environ=faults.environ if faults else {}) as world:
        urls = [gateway.url for gateway in world.gateways]
        customers = Customers(
            urls=lambda: urls, keys=[key], count=12, kinds=("plain", "stream", "stream", "abort"), pause_s=0.05
        ).start()
        for number in range(kills):
            world.kill_one()
            if number % 10 == 9:
                verdict.settle()
            if faults is not None and number % 10 == 4:
                faults.strike()
        journal = customers.stop()
        for node in world.nodes.values():
            node.stop()
        world.stop()
        _adopt(pool)
    found = verdict.judge(journal=journal, customer=customer, paid_nano=PAID_NANO)
    row = {"kills": kills, "seconds": round(time.monotonic() - began), **found.as_row()}
    sys.stdout.write(json.dumps(row) + "\n")
    return found


def _adopt(pool: Pool) -> None:
    """Let what the last killed processes left be adopted, as the next start of a gateway does."""
    if list_spools(pool.folder / "spool"):
        last = pool.gateway(30)
        until("all spools are adopted", lambda: len(list_spools(pool.folder / "spool")) <= 1, 60)
        last.stop()
        pool.gateways.remove(last)
    assert list_spools(pool.folder / "spool") == []


class Faults:
    """Restarts of the gateways' Valkey, and breaks of all their connections to Postgres."""

    def __init__(self, folder: Path, proxy: TcpProxy) -> None:
        self._folder = folder
        self._proxy = proxy
        self._valkey = servers.start_valkey(folder)
        database = connection.settings_dict
        self.environ = {
            "REDIS_URL": self._valkey.url,
            "DATABASE_URL": f"postgresql://{database['USER']}@127.0.0.1:{proxy.port}/{database['NAME']}",
        }

    def strike(self) -> None:
        """Break one of the two and heal it."""
        if _chance.choice(FAULTS) == "valkey":
            self._valkey.process.kill()
            self._valkey.process.wait()
            time.sleep(_chance.uniform(0, 1))
            self._valkey = servers.start_valkey(self._folder, port=urlsplit(self._valkey.url).port or 0)
        else:
            self._proxy.cut()
            time.sleep(_chance.uniform(0, 2))
            self._proxy.heal()

    def stop(self) -> None:
        self._valkey.stop()


@pytest.fixture
def faults(tmp_path: Path) -> Iterator[Faults]:
    database = connection.settings_dict
    with TcpProxy(str(database["HOST"]), int(database["PORT"])) as proxy:
        made = Faults(tmp_path, proxy)
        yield made
        made.stop()


@pytest.mark.timeout(120)
def test_a_few_kills_under_load_lose_nothing_and_double_nothing(pool: Pool) -> None:
    found = _chaos(pool, kills=5)

    assert found.whole > 0
    assert found.is_clean, found


@pytest.mark.chaos
@pytest.mark.timeout(600 + 20 * KILLS)
def test_a_thousand_kills_with_broken_servers_lose_nothing_and_double_nothing(pool: Pool, faults: Faults) -> None:
    found = _chaos(pool, kills=KILLS, faults=faults)

    assert found.whole > KILLS
    assert found.is_clean, found
