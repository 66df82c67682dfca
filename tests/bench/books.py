"""`python -m tests.bench.books`: usage records rated, stored, booked, matured and paid to many providers on two cores.

A pool of its own (PostgreSQL, Valkey, the stand-in for Stripe) takes the rounds one after the other, so that the last
one also shows what history costs. One JSON line a step of a round: seconds, and microseconds a record; then one a page
of the portal over what the last round left. The ledger check has to come out clean, or it ends with 1.
"""

import argparse
import json
import os
import random
import secrets
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

CORES = 2
_CUSTOMERS = 20
_BATCH = 500
_MATURE = timedelta(days=200)
_LOOKED_AT = timedelta(minutes=30)
_FUNDS_MINOR = 10_000_000_000


def main() -> int:
    """Run the rounds; 0 where the books are right after the last."""
    options = _parser().parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    with tempfile.TemporaryDirectory(prefix="books-") as folder, _pool(Path(folder)):
        from tests.bench import pages
        from tests.bench.books_market import Fair

        with _shop() as shop:
            shop.fund(_FUNDS_MINOR)
            draw = random.Random(options.seed)  # noqa: S311  the same requests each time
            fair = Fair(shop, customers=_CUSTOMERS, providers=options.providers, draw=draw)
            differences = []
            for records in options.records:
                served_at = fair.now
                differences += _round(fair, records)
            for line in pages.measure(fair, at=served_at + _LOOKED_AT):
                _say(line)
    for found in differences:
        _say({"difference": found.code, "subject": found.subject})
    return 1 if differences else 0


def _round(fair: Any, records: int) -> list[Any]:
    """Bring so many records from the price list to the providers' accounts at Stripe."""
    now = fair.now
    later = now + _MATURE
    rows = _timed("rate", records, lambda: fair.deliver(records))
    _timed("store", records, lambda: fair.ship(rows, batch=_BATCH))
    _timed("post", records, lambda: fair.post(now))
    _timed("mature", records, lambda: fair.mature(later))
    payouts = _timed("draft and approve", records, lambda: fair.draft(later))
    _timed("send", records, lambda: fair.send(later))
    differences: list[Any] = _timed("check", records, lambda: fair.check(later))
    _say({"records": records, "payouts": payouts, "sent": fair.sent(), "differences": len(differences)})
    fair.now = later
    return differences


def _timed(step: str, records: int, work: Callable[[], Any]) -> Any:
    began = time.perf_counter()
    done = work()
    took_s = time.perf_counter() - began
    _say({"records": records, "step": step, "s": round(took_s, 2), "us_a_record": round(took_s / records * 1e6, 1)})
    return done


@contextmanager
def _pool(folder: Path) -> Iterator[None]:
    """Start PostgreSQL and Valkey, and point this process's Django at an empty database."""
    from portal.sandbox import servers

    running = [servers.start_postgres(folder / "postgres"), servers.start_valkey(folder / "valkey")]
    try:
        os.environ.update(
            DJANGO_SETTINGS_MODULE="portal.settings.local",
            DATABASE_URL=servers.create_database(running[0].url, "books"),
            REDIS_URL=running[1].url,
            SECRET_KEY=secrets.token_hex(32),
        )
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        yield
    finally:
        for server in running:
            server.stop()


@contextmanager
def _shop() -> Iterator[Any]:
    from tests.factories.payouts import open_shop

    with open_shop() as shop:
        yield shop


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.books", description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[100_000, 1_000_000], help="one number a round")
    parser.add_argument("--providers", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    return parser


def _say(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201  the command's output


if __name__ == "__main__":
    sys.exit(main())
