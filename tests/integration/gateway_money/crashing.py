"""Run as a program: forks gateway money parts over one spool folder and kills each with SIGKILL at a random moment.

Each child keeps a journal of its own, apart from the spool: `O request` once the open record is written, `M request
bytes` once a mark says so, `C request nano` once the close has returned. Every child adopts what its predecessors left,
and may be killed while it does.
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path
from random import SystemRandom

import django

_chance = SystemRandom()
PIECES = ["The sea ", "is deep ", "and blue, ", "and nobody ", "owns it."]


class Journal:
    """Lines that are in the kernel's hands before the next thing happens."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, *words: object) -> None:
        os.write(self._descriptor, (" ".join(map(str, words)) + "\n").encode())


async def serve_for_ever(process, journal: Journal) -> None:
    while True:
        hold = await process.place(1_000_000)
        attempt = await process.open(hold)
        request = attempt.facts.request_id
        journal.write("O", request)
        for piece in PIECES:
            attempt.deliver(piece)
            attempt.claim.completion = (attempt.claim.completion or 0) + 2
            await asyncio.sleep(_chance.uniform(0, 0.004))
        attempt.finished_choices = 1
        settled = await process.settlement.close(attempt, outcome="completed")
        journal.write("C", request, settled.charge_nano)


async def mark_for_ever(process, journal: Journal) -> None:
    while True:
        await asyncio.sleep(0.005)
        await process.settlement.mark_all()
        for tracked in list(process.settlement._open.values()):
            if tracked.marked_bytes and tracked.attempt.is_open:
                journal.write("M", tracked.attempt.facts.request_id, tracked.marked_bytes)


def live(folder: Path, number: int, goods) -> None:
    """Be one gateway process until killed."""
    from tests.integration.gateway_money.rig import Process

    journal = Journal(folder / f"journal-{number}")

    async def whole() -> None:
        process = Process(folder, index=number % 2, goods=goods)
        await process.start()
        await asyncio.gather(mark_for_ever(process, journal), *[serve_for_ever(process, journal) for _ in range(6)])

    asyncio.run(whole())


def main() -> None:
    folder, kills, market_ids = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    django.setup()
    from django.db import connections

    from tests.integration.gateway_money.rig import goods_of

    goods = goods_of(market_ids)
    connections.close_all()
    for number in range(kills):
        child = os.fork()
        if child == 0:
            live(folder, number, goods)
        time.sleep(_chance.uniform(0.1, 1.0))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
