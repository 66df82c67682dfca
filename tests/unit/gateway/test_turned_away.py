"""Requests that found no node are summed, bounded, and wait for a database that is away."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError

from portal.gateway import turned_away
from portal.gateway.capacity import NoCapacity
from portal.gateway.turned_away import TurnedAway
from portal.metering.services.demand import Away
from tests.factories.gateway import model_entry

NOW = datetime(2026, 11, 2, 12, 0, 59, tzinfo=UTC)
MINUTE = NOW.replace(second=0)


class _Threads:
    """Takes the place of the threads: keeps what would be written, or fails as a database does."""

    def __init__(self) -> None:
        self.written: list[list[Away]] = []
        self.error: Exception | None = None

    async def run(self, function: Any, *, away: list[Away]) -> None:
        del function
        if self.error is not None:
            raise self.error
        self.written.append(away)


@pytest.fixture
def threads() -> _Threads:
    return _Threads()


@pytest.fixture
def book(threads: _Threads) -> TurnedAway:
    return TurnedAway(threads=threads)  # type: ignore[arg-type]  # only `run` is used


def _refusal(reason: str) -> NoCapacity:
    return NoCapacity(model_entry(), {reason: 1})


async def test_requests_are_summed_by_minute_model_and_reason(book: TurnedAway, threads: _Threads) -> None:
    for model_id, reason, after_s in (
        (1, "full", 0),
        (1, "full", -30),
        (1, "full", 1),
        (2, "full", 0),
        (1, "tunnel", 0),
    ):
        book.note(model_id, _refusal(reason), now=NOW + timedelta(seconds=after_s))

    await book.flush()
    await book.flush()

    assert threads.written == [
        [
            Away(MINUTE, 1, "full", 2),
            Away(MINUTE + timedelta(minutes=1), 1, "full", 1),
            Away(MINUTE, 2, "full", 1),
            Away(MINUTE, 1, "tunnel", 1),
        ]
    ]


@pytest.mark.parametrize("error", [OperationalError("gone"), TimeoutError()])
async def test_without_a_database_the_sums_wait(book: TurnedAway, threads: _Threads, error: Exception) -> None:
    threads.error = error
    book.note(1, _refusal("full"), now=NOW)
    await book.flush()
    book.note(1, _refusal("full"), now=NOW)
    threads.error = None

    await book.flush()

    assert threads.written == [[Away(MINUTE, 1, "full", 2)]]


async def test_what_finds_no_place_is_counted(book: TurnedAway, threads: _Threads) -> None:
    for model_id in range(turned_away.MAX_SUMS + 3):
        book.note(model_id, _refusal("full"), now=NOW)
    book.note(0, _refusal("full"), now=NOW)

    await book.flush()

    assert (len(threads.written[0]), book.dropped) == (turned_away.MAX_SUMS, 3)
