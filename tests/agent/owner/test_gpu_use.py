"""Whose processes use the GPUs: the agent's own and its engines' are not the owner's."""

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from poolhouse_agent.engine import containers, host
from poolhouse_agent.nvml.inventory import Inventory
from poolhouse_agent.owner import gpu_use, rules
from poolhouse_agent.owner.gpu_use import Ours, Use

from tests.fakes.nvml import build

RULES = rules.read({}, where="x")
MIB = 1 << 20


@contextlib.asynccontextmanager
async def detached() -> AsyncIterator[int]:
    """A process of somebody else's: in a session of its own, and no child of this one."""
    script = (
        "import subprocess as s; "
        "print(s.Popen(['sleep', '60'], stdout=s.DEVNULL, stderr=s.DEVNULL, start_new_session=True).pid)"
    )
    starter = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    output, _ = await starter.communicate()
    pid = int(output)
    try:
        yield pid
    finally:
        os.kill(pid, 9)


def gpu(*processes: tuple[int, int | None]) -> list[dict[str, Any]]:
    running = [{"pid": pid, "memory_bytes": memory} for pid, memory in processes]
    return [{"uuid": "GPU-1", "values": {"processes": running}}]


def uses(gpus: list[dict[str, Any]], *, ours: Ours | None = None, **owner: Any) -> list[Use]:
    return gpu_use.owners_uses(gpus, rules=rules.read(owner, where="x"), ours=ours or Ours())


async def test_a_strangers_process_is_the_owners() -> None:
    async with detached() as pid:
        (use,) = uses(gpu((pid, 900 * MIB)))

    assert use == Use("GPU-1", pid, "sleep", 900 * MIB)
    assert str(use) == f"sleep (process {pid}) with 900 MiB"


async def test_memory_that_the_driver_does_not_tell_counts() -> None:
    async with detached() as pid:
        assert [str(use) for use in uses(gpu((pid, None)))] == [f"sleep (process {pid})"]


async def test_little_memory_and_named_processes_may_run_beside() -> None:
    async with detached() as pid:
        assert uses(gpu((pid, 63 * MIB))) == []
        assert uses(gpu((pid, 900 * MIB)), yield_ignore=["sleep"]) == []
        assert len(uses(gpu((pid, 63 * MIB)), yield_memory="1MiB")) == 1


async def test_what_this_agent_or_an_engine_started_is_ours(tmp_path: Path) -> None:
    child = await asyncio.create_subprocess_exec("sleep", "60")
    async with detached() as pid:
        folder = tmp_path / "engines" / "dep_1"
        folder.mkdir(parents=True)
        (folder / host.NOTE).write_text(json.dumps({"pid": pid, "host": 0}), encoding="ascii")

        assert uses(gpu((os.getpid(), 900 * MIB), (child.pid, 900 * MIB))) == []
        assert uses(gpu((pid, 900 * MIB)), ours=gpu_use.ours_below(tmp_path / "engines")) == []
    child.kill()
    await child.wait()


async def test_an_engine_in_a_unit_or_a_container_is_ours_by_its_control_group(tmp_path: Path) -> None:
    async with detached() as pid:
        group = Path(f"/proc/{pid}/cgroup").read_text(encoding="ascii").strip()

        assert uses(gpu((pid, 900 * MIB)), ours=Ours(groups=(group[-12:],))) == []


def test_containers_are_known_by_the_ids_that_were_written_and_torn_notes_name_nobody(tmp_path: Path) -> None:
    for number, (note, container) in enumerate([('{"pid": 77, "host": 76}', "a" * 64), ("{", "x"), ("[]", "")]):
        (tmp_path / f"dep_{number}").mkdir()
        (tmp_path / f"dep_{number}" / gpu_use.NOTE).write_text(note, encoding="ascii")
        (tmp_path / f"dep_{number}" / gpu_use.ID_FILE).write_text(container, encoding="ascii")

    found = gpu_use.ours_below(tmp_path)

    assert found == Ours(frozenset({76, 77}), ("poolhouse-engine", "poolhouse-agent", "a" * 64))
    assert (gpu_use.NOTE, gpu_use.ID_FILE) == (host.NOTE, containers.ID_FILE)


def test_a_process_that_cannot_be_seen_is_nobodys() -> None:
    assert uses(gpu((4_194_999, 900 * MIB))) == []


@pytest.mark.skipif(build.compiler() is None, reason="no C compiler for the stand-in of libnvidia-ml")
async def test_the_real_report_names_processes_and_their_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = build.Scenario(tmp_path / "scenario.txt")
    monkeypatch.setenv("NVML_STUB", str(scenario.path))
    async with detached() as pid:
        scenario.add(f"gpu1.procs={pid}:{900 * MIB},{os.getpid()}:{100 * MIB}")
        report = await Inventory(library=str(build.build(tmp_path))).read()

        found = uses(list(report.gpus))

    assert [(use.gpu[-1], use.pid) for use in found] == [("2", pid)]
