"""Disk and network: figures, limits, and what is said where nothing can be measured."""

import asyncio
from pathlib import Path

import pytest
from poolhouse_agent.benchmarks import disk, network
from poolhouse_agent.errors import PortalError
from poolhouse_agent.progress import Bars, bar

MIB = 1 << 20


async def test_a_file_is_written_read_and_removed(tmp_path: Path) -> None:
    said: list[float] = []

    write, read = await disk.step(tmp_path, size=8 * MIB).work(said.append)

    assert (write.id, read.id, write.evidence["bytes"]) == ("disk.write", "disk.read", 8 * MIB)
    assert (write.figure or 0) > 0
    assert (read.figure or 0) > 0
    assert said == sorted(said)
    assert said[-1] == 1.0
    assert list(tmp_path.iterdir()) == []


async def test_a_full_disk_is_not_filled_further(tmp_path: Path) -> None:
    (result,) = await disk.step(tmp_path, size=1 << 60).work(lambda _: None)

    assert (result.status, result.code) == ("skip", "disk_space_low")


async def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    (result,) = await disk.step(tmp_path / "none", size=MIB).work(lambda _: None)

    assert (result.status, result.code) == ("fail", "state_unwritable")


async def test_round_trip_and_throughput() -> None:
    async def exchange(text: str, wanted: int) -> int:
        await asyncio.sleep(0.01 + (len(text) + wanted) / 10_000_000)
        return wanted

    trip, up, down = await network.step(exchange, size=1_024_000).work(lambda _: None)

    assert (trip.id, up.id, down.id) == ("network.round_trip", "network.upload", "network.download")
    assert (trip.figure or 0) >= 10
    assert len(trip.evidence["trips_ms"]) == 10
    assert 0 < (up.figure or 0) <= 80.5
    assert 0 < (down.figure or 0) <= 80.5


async def test_a_far_pool_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(10**6))

    async def exchange(text: str, wanted: int) -> int:
        return wanted

    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: next(clock) * 0.3)
    (trip, *_) = await network.step(exchange, size=1).work(lambda _: None)
    monkeypatch.undo()

    assert (trip.status, trip.code, trip.threshold) == ("warn", "network_slow", "at most 250 ms")


async def test_an_echo_that_is_too_short_is_no_measure() -> None:
    async def exchange(text: str, wanted: int) -> int:
        return wanted // 2

    (result,) = await network.step(exchange, size=1).work(lambda _: None)

    assert (result.status, result.code) == ("fail", "portal_error")


async def test_a_pool_that_does_not_answer_is_said_so() -> None:
    async def exchange(text: str, wanted: int) -> int:
        raise PortalError("portal_unreachable", "no route")

    (result,) = await network.step(exchange, size=1).work(lambda _: None)

    assert (result.status, result.code, result.detail) == ("fail", "portal_unreachable", "no route")
    assert result.fix


def test_a_bar_shows_how_far_it_is() -> None:
    assert bar("3/15 matrix product, bf16", 0.5) == (
        "3/15 matrix product, bf16          [############............]  50 %"
    )
    assert bar("x", 7.0).endswith("100 %")


def test_nothing_is_drawn_where_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    bars = Bars()
    step = disk.step(Path("/nowhere"), size=1)

    bars.begin(step, 1, 2)
    bars.say(0.5)
    bars.end()

    assert capsys.readouterr() == ("", "")
