"""Weights are fetched by a process of their own: resumed, checked, within disk, rate and quota; nothing unsafe."""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from poolhouse_agent.config import Downloads
from poolhouse_agent.engine import fetch as fetching
from poolhouse_agent.engine import supply
from poolhouse_agent.engine.launch import Launcher
from poolhouse_agent.engine.supply import Supply
from poolhouse_agent.errors import EngineError, PortalError
from poolhouse_agent.protocol.messages import Manifest
from poolhouse_common.artefacts import folder_digest

from tests.fakes.hub import Hub, running_hub

BIG = bytes(range(256)) * 4096  # 1 MiB


@dataclass
class Purse:
    """A quota."""

    left: int | None = None
    noted: int = 0

    def left_bytes(self) -> int | None:
        return self.left

    def note(self, count: int) -> None:
        self.noted += count


class Shop:
    """A hub, what it should have, and a supply that buys there."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub = hub
        self.digest = folder_digest(hub.folder)
        self.manifest = Manifest("acme/tiny", "r1", {
            path.relative_to(hub.folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in hub.folder.rglob("*") if path.is_file()
        })  # fmt: skip
        self.purse = Purse()
        self.told: list[tuple[str, int, int]] = []
        launcher = Launcher(folder / "agent.alive", door=folder / "none")
        self.supply = Supply(folder, Downloads(hub=hub.url, keep_free_bytes=0), self._ask, launcher, self.purse)

    async def _ask(self, digest: str) -> Manifest:
        if digest != self.digest:
            raise PortalError("weights_unknown", digest)
        return self.manifest

    async def fetch(self) -> Path:
        return await asyncio.wait_for(
            self.supply.fetch_weights(self.digest, tell=lambda *one: self.told.append(one)), 60
        )

    async def refused(self) -> EngineError:
        with pytest.raises(EngineError) as found:
            await self.fetch()
        return found.value

    def order(self, **changes: Any) -> fetching.Order:
        """As the supply orders it, for a fetch in this process."""
        files = [fetching.File(path, digest) for path, digest in sorted(self.manifest.files.items())]
        into = self.supply.folder / "weights" / self.digest
        base = f"{self.hub.url}/acme/tiny/resolve/r1"
        return replace(fetching.Order(base, files, into, 0, 0, 0, pause_s=0.01), **changes)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    source = tmp_path / "source"
    (source / "sub").mkdir(parents=True)
    (source / "config.json").write_text("{}", encoding="ascii")
    (source / "model.safetensors").write_bytes(BIG)
    (source / "sub" / "tokenizer.json").write_text('{"a": 1}', encoding="ascii")
    (tmp_path / "state").mkdir()
    with running_hub(source) as hub:
        yield Shop(hub, tmp_path / "state")


async def test_a_model_is_fetched_once_and_is_the_catalogues(shop: Shop) -> None:
    first = await shop.fetch()
    asked = len(shop.hub.asked)
    second = await shop.fetch()

    assert first == second
    assert folder_digest(first) == shop.digest
    assert len(shop.hub.asked) == asked
    assert shop.purse.noted == sum(path.stat().st_size for path in first.rglob("*") if path.is_file())
    assert shop.told[-1][0] == "acme/tiny"


async def test_a_source_may_be_written_with_the_hubs_address(shop: Shop) -> None:
    shop.manifest = replace(shop.manifest, source=f"{shop.hub.url}/acme/tiny")

    assert folder_digest(await shop.fetch()) == shop.digest


def run(shop: Shop, folder: Path, **changes: Any) -> fetching.Told:
    told = fetching.Told(folder)
    fetching.fetch(shop.order(**changes), told)
    return told


def test_a_connection_that_breaks_is_taken_up_where_it_broke(shop: Shop, tmp_path: Path) -> None:
    shop.hub.breaks, shop.hub.breaks_after = 3, 300_000

    told = run(shop, tmp_path)

    spans = [span for _, path, span in shop.hub.asked if path.endswith("safetensors") and span]
    assert spans == ["bytes=300000-", "bytes=600000-", "bytes=900000-"]
    assert told.done_bytes == told.total_bytes == told.fetched_bytes
    assert folder_digest(shop.order().into) == shop.digest


def test_a_later_fetch_goes_on_where_the_last_one_stopped(shop: Shop, tmp_path: Path) -> None:
    part = shop.order().into.with_name(shop.digest + ".part")
    part.mkdir(parents=True)
    (part / "model.safetensors").write_bytes(BIG[:500_000])

    told = run(shop, tmp_path)

    assert told.done_bytes == told.total_bytes
    assert told.fetched_bytes == told.total_bytes - 500_000
    assert folder_digest(shop.order().into) == shop.digest


def test_a_server_without_ranges_sends_it_all_again(shop: Shop, tmp_path: Path) -> None:
    shop.hub.has_ranges = False
    shop.hub.breaks, shop.hub.breaks_after = 1, 300_000

    told = run(shop, tmp_path)

    assert told.done_bytes == told.total_bytes
    assert told.fetched_bytes == told.total_bytes + 300_000
    assert folder_digest(shop.order().into) == shop.digest


@pytest.mark.parametrize("there", [BIG[:-1] + b"x", BIG + b"more"])
def test_what_is_there_and_wrong_is_fetched_anew(shop: Shop, tmp_path: Path, there: bytes) -> None:
    part = shop.order().into.with_name(shop.digest + ".part")
    part.mkdir(parents=True)
    (part / "model.safetensors").write_bytes(there)

    run(shop, tmp_path)

    assert folder_digest(shop.order().into) == shop.digest


async def test_another_content_than_the_catalogues_never_gets_its_name(shop: Shop) -> None:
    (shop.hub.folder / "config.json").write_text('{"x": 1}', encoding="ascii")

    with pytest.raises(fetching.Failed) as refused:
        run(shop, shop.supply.folder)

    assert refused.value.code == "download_failed"
    assert "another digest" in refused.value.detail
    assert shop.supply.weights(shop.digest) is None


@pytest.mark.parametrize(
    ("status", "code"), [(403, "download_refused"), (404, "download_refused"), (503, "download_failed")]
)
def test_a_refusal_is_told_apart_from_a_fault(shop: Shop, tmp_path: Path, status: int, code: str) -> None:
    shop.hub.refuses = status

    with pytest.raises(fetching.Failed) as refused:
        run(shop, tmp_path)

    assert refused.value.code == code
    assert len(shop.hub.asked) == (1 if code == "download_refused" else 5)


@pytest.mark.parametrize("address", ["http://192.0.2.1/x", "file:///etc/passwd", "ftp://127.0.0.1/x"])
def test_a_redirect_away_from_https_is_not_followed(shop: Shop, tmp_path: Path, address: str) -> None:
    shop.hub.redirects_to = address

    with pytest.raises(fetching.Failed) as refused:
        run(shop, tmp_path)

    assert refused.value.code == "download_refused"


def test_a_full_disk_is_seen_before_it_is_full(shop: Shop, tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free

    with pytest.raises(fetching.Failed) as refused:
        run(shop, tmp_path, keep_free_bytes=free)

    assert refused.value.code == "disk_full"
    assert not any(command == "GET" for command, _, _ in shop.hub.asked)


async def test_the_owners_quota_is_kept(shop: Shop) -> None:
    shop.purse.left = 1000

    refused = await shop.refused()
    shop.purse.left = 0
    at_once = await shop.refused()

    assert (refused.code, at_once.code) == ("download_quota_reached", "download_quota_reached")
    assert not any(command == "GET" for command, _, _ in shop.hub.asked)
    assert shop.purse.noted == 0


def test_a_rate_is_a_rate() -> None:
    """The pace asks for as much waiting as the bytes take at the rate, less what it lets run ahead."""
    waits: list[float] = []
    pace = fetching.Pace(1_000_000)
    original = fetching.time.sleep
    fetching.time.sleep = waits.append  # type: ignore[assignment]  the clock is the edge
    try:
        for _ in range(10):
            pace.spend(100_000)
    finally:
        fetching.time.sleep = original

    assert waits[-1] == pytest.approx(0.9, abs=0.05)


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"source": "../../etc"}, "download_refused"),
        ({"source": "https://evil.example/x"}, "download_refused"),
        ({"revision": "../main"}, "download_refused"),
        ({"files": {"../config.json": "00"}}, "weights_mismatch"),
        ({"files": {"config.json": "00"}}, "weights_mismatch"),
    ],
)
async def test_a_list_that_cannot_be_meant_is_refused(shop: Shop, changes: dict[str, Any], code: str) -> None:
    shop.manifest = replace(shop.manifest, **changes)

    refused = await shop.refused()

    assert refused.code == code
    assert shop.hub.asked == []


@pytest.mark.parametrize("name", ["../x.json", "/etc/x.json", "a/../../x.json", ".hidden", "a//b", "x.py", "x.bin"])
async def test_a_file_that_may_not_be_written_is_refused(shop: Shop, name: str) -> None:
    """Even where the catalogue's own digest covers it."""
    shop.manifest = replace(shop.manifest, files={name: "0" * 64})
    shop.digest = supply.folder_digest(shop.manifest.files)

    refused = await shop.refused()

    assert refused.code in {"download_refused", "weights_unsafe"}
    assert shop.hub.asked == []


async def test_an_owner_who_forbids_downloads_gets_none(shop: Shop) -> None:
    shop.supply.terms = replace(shop.supply.terms, enabled=False)

    assert (await shop.refused()).code == "download_disabled"
    assert shop.hub.asked == []


async def test_a_fetch_that_is_broken_off_leaves_no_process_and_goes_on_later(shop: Shop) -> None:
    shop.supply.terms = replace(shop.supply.terms, rate_bytes_s=200_000)
    work = asyncio.create_task(shop.fetch())
    folder = shop.supply.folder / "weights" / f".fetch-{shop.digest[:24]}"
    async with asyncio.timeout(20):
        while not shop.hub.sent_bytes:
            await asyncio.sleep(0.02)
    pid = json.loads((folder / "process.json").read_text(encoding="utf-8"))["pid"]
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work

    assert not Path(f"/proc/{pid}/cmdline").exists() or not Path(f"/proc/{pid}/cmdline").read_bytes()
    shop.supply.terms = replace(shop.supply.terms, rate_bytes_s=0)
    assert folder_digest(await shop.fetch()) == shop.digest
