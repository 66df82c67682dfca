"""Mixed load for an hour: memory, open files and spools of the gateways stay flat, and the books are right after it."""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from typing import Final

import pytest

from portal.core.money import NANO_PER_UNIT
from tests.chaos import verdict
from tests.chaos.customers import Customers
from tests.fakes import scripts
from tests.fakes.scripted_node import Reply
from tests.integration.gateway.pool import Gateway, Pool
from tests.soak import samples
from tests.soak.samples import Growth, Sample

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.soak]

MINUTES = float(os.environ.get("MINUTES", "60"))
EVERY_S = min(10.0, MINUTES * 60 / 12)
PAID_NANO = 1_000_000 * NANO_PER_UNIT
KINDS = ("plain", "plain", "stream", "stream", "abort", "bad")
TABLES = ("metering_usagerecord", "billing_usageposting", "billing_creditlease", "metering_spool", "nodes_tunnel")
# What each figure may grow by after the warm-up: at once (noise), and an hour.
ALLOWED: Final = {
    "own_mib": (3.0, 6.0),
    "rss_mib": (4.0, 6.0),
    "files": (6.0, 2.0),
    "threads": (2.0, 0.0),
    "spools mib": (6.0, 0.0),  # SQLite reuses its pages: a bounded file, not an empty one
    "billing_creditlease mib": (0.5, 1.0),
    "nodes_tunnel mib": (0.5, 0.5),
}
TEXT = " ".join(f"word{number}" for number in range(60))


def _moody(every: int) -> scripts.Script:
    """A node that fails each so many requests, in a different way each time."""
    seen = Counter[str]()
    honest = scripts.honest(TEXT, pause_s=0.02)

    async def script(reply: Reply) -> None:
        seen["all"] += 1
        turn = seen["all"]
        if turn % every:
            await honest(reply)
        elif turn % (3 * every) == 0:
            await reply.fail("engine_died")
        elif turn % (2 * every) == 0:
            await reply.whole({"error": {"message": "no", "type": "x", "code": 500}}, status=500)
        else:
            await reply.begin()
            await reply.delta("So ")
            await asyncio.sleep(0.05)
            await reply.fail("engine_died")

    return script


def _look(gateways: list[Gateway], pool: Pool, began: float) -> Sample:
    figures: dict[str, float] = {}
    for gateway in gateways:
        assert gateway.process is not None
        figures |= samples.of_process(gateway.process.pid, f"gateway {gateway.index}")
    figures |= samples.of_folder(pool.folder / "spool") | samples.of_tables(TABLES)
    return Sample(time.monotonic() - began, figures)


def _table(found: list[Growth]) -> str:
    lines = [f"{'figure':<34}{'first':>10}{'last':>10}{'growth':>10}{'allowed':>10}"]
    for row in found:
        allowed = "-" if row.allowed is None else f"{row.allowed:.2f}"
        lines.append(f"{row.figure:<34}{row.first:>10.2f}{row.last:>10.2f}{row.grown:>10.2f}{allowed:>10}")
    return "\n".join(lines)


# litellm#14540, #17388, #24230; production-stack#687: clients and prefixes that only grew
@pytest.mark.timeout(int(MINUTES * 60) + 300)
def test_an_hour_of_mixed_load_leaves_everything_flat(pool: Pool) -> None:
    customer = pool.organization(PAID_NANO)
    keys = [pool.new_key(customer) for _ in range(5)]
    gateways = [pool.gateway(0), pool.gateway(1)]
    for gateway, every in zip(gateways, (10**9, 7), strict=True):
        pool.connect(pool.machine(concurrency=64), gateway, _moody(every))
    customers = Customers(
        urls=lambda: [gateway.url for gateway in gateways], keys=keys, count=10, kinds=KINDS, pause_s=0.3
    ).start()

    began = time.monotonic()
    taken: list[Sample] = []
    while time.monotonic() - began < MINUTES * 60:
        time.sleep(EVERY_S)
        verdict.settle()
        for node in pool.nodes:
            node.replies.clear()
        taken.append(_look(gateways, pool, began))
    journal = customers.stop()
    found = samples.growths(taken, ALLOWED)
    pool.stop()

    books = verdict.judge(journal=journal, customer=customer, paid_nano=PAID_NANO)
    row = {
        "minutes": MINUTES,
        "samples": len(taken),
        "growth": {one.figure: round(one.grown, 2) for one in found},
        **books.as_row(),
    }
    sys.stdout.write(_table(found) + "\n" + json.dumps(row) + "\n")
    assert [one for one in found if not one.is_flat] == []
    assert books.whole > 0
    assert books.is_clean, books
