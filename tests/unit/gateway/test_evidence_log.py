"""Evidence waits in a bounded memory, one entry a node and rule, and is never in anybody's way."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
import time_machine
from django.db import OperationalError

from portal.gateway import evidence
from portal.gateway.evidence import EvidenceLog
from portal.trust.services.evidence import Incident

REQUEST = UUID("01939d2e-0000-7000-8000-000000000001")


class _Threads:
    """Takes the place of the threads: keeps what would be written, or fails as a database does."""

    def __init__(self) -> None:
        self.written: list[list[Incident]] = []
        self.error: Exception | None = None

    async def run(self, function: Any, *, incidents: list[Incident]) -> int:
        del function
        if self.error is not None:
            raise self.error
        self.written.append(incidents)
        return len(incidents)


@pytest.fixture
def threads() -> _Threads:
    return _Threads()


@pytest.fixture(autouse=True)
def _within_one_hour() -> Iterator[None]:
    """Entries are per hour: no test may cross one."""
    with time_machine.travel(datetime(2026, 3, 4, 5, 30, tzinfo=UTC), tick=True):
        yield


@pytest.fixture
def log(threads: _Threads) -> EvidenceLog:
    return EvidenceLog(threads=threads)  # type: ignore[arg-type]  # only `run` is used


async def test_a_thousand_incidents_of_a_kind_are_one_entry_with_the_first_ones_facts(
    log: EvidenceLog, threads: _Threads
) -> None:
    log.note(node_id=1, rule="tunnel_flood", detail="first", request_id=REQUEST, attempt=2, sample=b'{"n": 1}')
    for number in range(999):
        log.note(node_id=1, rule="tunnel_flood", detail=f"later {number}")
    log.note(node_id=1, rule="usage_invalid")
    log.note(node_id=2, rule="tunnel_flood")

    assert await log.flush()

    (written,) = threads.written
    assert [(row.node_id, row.rule, row.count) for row in written] == [
        (1, "tunnel_flood", 1_000),
        (1, "usage_invalid", 1),
        (2, "tunnel_flood", 1),
    ]
    first = written[0]
    assert (first.detail, first.request_id, first.attempt, first.sample) == ("first", REQUEST, 2, '{"n": 1}')
    assert log.dropped == 0


async def test_what_finds_no_place_is_counted(log: EvidenceLog, threads: _Threads) -> None:
    for node in range(evidence.MAX_ENTRIES + 5):
        log.note(node_id=node, rule="tunnel_flood")
    log.note(node_id=0, rule="tunnel_flood")

    await log.flush()

    assert len(threads.written[0]) == evidence.MAX_ENTRIES
    assert log.dropped == 5


@pytest.mark.parametrize("error", [OperationalError("gone"), TimeoutError()])
async def test_without_a_database_evidence_waits_and_goes_on_counting(
    log: EvidenceLog, threads: _Threads, error: Exception
) -> None:
    threads.error = error
    log.note(node_id=1, rule="tunnel_flood", detail="first")
    assert not await log.flush()
    log.note(node_id=1, rule="tunnel_flood", detail="second")

    threads.error = None
    assert await log.flush()

    ((row,),) = threads.written
    assert (row.count, row.detail) == (2, "first")


async def test_an_hour_has_its_own_entry(log: EvidenceLog, threads: _Threads) -> None:
    with time_machine.travel(datetime(2026, 11, 2, 12, 59, 59, tzinfo=UTC), tick=False) as now:
        log.note(node_id=1, rule="tunnel_flood")
        now.shift(2)
        log.note(node_id=1, rule="tunnel_flood")

    await log.flush()

    assert [row.first_at.hour for row in threads.written[0]] == [12, 13]


async def test_nothing_is_written_when_nothing_happened(log: EvidenceLog, threads: _Threads) -> None:
    assert await log.flush()

    assert threads.written == []


async def test_a_sample_is_short_printable_text(log: EvidenceLog, threads: _Threads) -> None:
    log.note(node_id=1, rule="tunnel_flood", detail="a\r\nb\x00ü", sample=b"\x00\xff<script>\n" + b"x" * 2_000)

    await log.flush()

    row = threads.written[0][0]
    assert row.sample == "??<script>?" + "x" * 501
    assert row.detail == "a??b???"
