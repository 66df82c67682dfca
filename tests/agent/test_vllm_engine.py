"""Starting, watching and stopping a vLLM, with a program that stands in for it."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from poolhouse_agent import runtime
from poolhouse_agent.config import Config, ModelFolder
from poolhouse_agent.engine import process
from poolhouse_agent.engine.launch import Launcher
from poolhouse_agent.engine.process import Command, EngineProcess
from poolhouse_agent.state import State
from poolhouse_common.artefacts import folder_digest

from tests.agent.conftest import join, running_agent
from tests.fakes.pool import Pool, desired
from tests.fakes.vllm import program

MODEL = "acme/demo"
SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


class Machine:
    """A folder with weights and a program called vllm."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.weights = folder / "weights"
        self.weights.mkdir()
        (self.weights / "config.json").write_text("{}", encoding="ascii")
        (self.weights / "model.safetensors").write_bytes(bytes(64))
        self.program = program.write(folder)
        self.config = Config(
            models={MODEL: ModelFolder(self.weights)}, vllm=self.program, nvml="/none",
            engine_environment={"CHOSEN_BY_OWNER": "1"},
        )  # fmt: skip

    def wanted(self, **changes: Any) -> dict[str, Any]:
        return desired(engine="vllm", artefact_digest=folder_digest(self.weights), settings={}, **changes)

    @property
    def started(self) -> dict[str, Any]:
        return json.loads((self.folder / "started.json").read_text(encoding="utf-8"))

    @property
    def worker(self) -> int:
        return int((self.folder / "worker").read_text(encoding="ascii"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


async def test_vllm_is_started_clean_and_stopped_with_all_it_started(
    pool: Pool, state: State, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "leak")
    monkeypatch.setenv("VLLM_SERVER_DEV_MODE", "1")
    pool.desired = [machine.wanted(engine_args={"seed": 3})]
    await join(pool, state, simulate="")

    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        answer = await tunnel.ask(SHORT)
        started = machine.started
        assert is_alive(machine.worker)

    assert answer.failure is None
    environ, argv = started["environ"], started["argv"]
    assert not {"AWS_SECRET_ACCESS_KEY", "VLLM_SERVER_DEV_MODE", "NVML_STUB", "DATABASE_URL"} & set(environ)
    assert environ["CHOSEN_BY_OWNER"] == environ["HF_HUB_OFFLINE"] == environ["VLLM_NO_USAGE_STATS"] == "1"
    assert environ["VLLM_API_KEY"] not in argv
    assert len(environ["VLLM_API_KEY"]) > 30
    assert argv[:4] == ["serve", str(machine.weights), "--host", "127.0.0.1"]
    assert argv[argv.index("--seed") + 1] == "3"
    assert not is_alive(started["pid"])
    assert not is_alive(machine.worker)
    assert not Path(environ["TMPDIR"]).exists()


async def test_a_start_that_fails_is_named_by_its_log_and_not_tried_again(
    pool: Pool, state: State, machine: Machine
) -> None:
    (machine.folder / "log.txt").write_text("ValueError: No available memory for the cache blocks.", encoding="ascii")
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")

    async with running_agent(state, config=machine.config):
        beat = await pool.heartbeat(lambda beat: beat["deployments"] and beat["deployments"][0]["state"] == "failed")

    assert beat["deployments"][0]["code"] in {"out_of_gpu_memory", "engine_crash_loop"}
    assert "No available memory" in beat["deployments"][0]["detail"]


async def test_an_engine_that_keeps_dying_is_given_up(pool: Pool, state: State, machine: Machine) -> None:
    (machine.folder / "log.txt").write_text("RuntimeError: boom", encoding="ascii")
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")

    async with running_agent(state, config=machine.config):
        beat = await pool.heartbeat(
            lambda beat: beat["deployments"] and beat["deployments"][0]["code"] == "engine_crash_loop"
        )

    assert beat["deployments"][0]["state"] == "failed"
    assert "boom" in beat["deployments"][0]["detail"]


async def test_a_killed_engine_comes_back_and_its_orphans_are_gone(pool: Pool, state: State, machine: Machine) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")

    async with running_agent(state, config=machine.config):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        first, orphan = machine.started["pid"], machine.worker
        os.kill(first, signal.SIGKILL)
        await tunnel.until(lambda: tunnel.statuses[-1][0]["state"] == "failed")
        await tunnel.until_ready()

        assert machine.started["pid"] != first
        assert not is_alive(orphan)
        assert (await tunnel.ask(SHORT)).failure is None


async def test_a_missing_program_is_named(pool: Pool, state: State, machine: Machine) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")
    config = Config(models=machine.config.models, vllm=str(machine.folder / "none"), nvml="/none")

    async with running_agent(state, config=config):
        beat = await pool.heartbeat(lambda beat: beat["deployments"] and beat["deployments"][0]["state"] == "failed")

    assert beat["deployments"][0]["code"] == "engine_missing"


async def test_a_second_signal_does_not_cut_the_stop_short(pool: Pool, state: State, machine: Machine) -> None:
    pool.desired = [machine.wanted()]
    await join(pool, state, simulate="")

    work = asyncio.create_task(runtime.run(state, machine.config))
    await (await pool.tunnel()).until_ready()
    started, worker = machine.started["pid"], machine.worker
    for _ in range(3):
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.sleep(0.01)
    await asyncio.wait_for(work, 20)

    assert not is_alive(started)
    assert not is_alive(worker)


async def test_a_later_agent_reaps_what_a_killed_host_left(machine: Machine, state: State) -> None:
    argv = [machine.program, "serve", "x", "--port", "1", "--served-model-name", "m", "--max-model-len", "64"]
    engine = EngineProcess(state.engines / "dep_1", Launcher(state.folder / "agent.alive"))
    await engine.start(Command(argv, dict(os.environ), 1.0), ordered={})
    note = engine.note
    assert note is not None
    async with asyncio.timeout(10):
        while not (machine.folder / "worker").exists() or not is_alive(machine.worker):
            await asyncio.sleep(0.02)
    engine.let_go()
    os.kill(note.host, signal.SIGKILL)
    async with asyncio.timeout(10):
        while is_alive(note.host):
            await asyncio.sleep(0.02)
    assert is_alive(machine.worker)

    count = await process.reap_leftovers(state.engines)

    assert count in {1, 2}  # the worker, and the leader where the kernel has not ended it yet
    assert not is_alive(machine.worker)
    assert not is_alive(note.pid)
    assert not (note.folder / "process.json").exists()


async def test_a_note_that_names_a_stranger_kills_nobody(state: State) -> None:
    stranger = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    folder = state.engines / "dep_1"
    folder.mkdir()
    (folder / "process.json").write_text(json.dumps({"pid": stranger.pid, "mark": "0" * 24}), encoding="ascii")

    count = await process.reap_leftovers(state.engines)

    assert count == 0
    assert is_alive(stranger.pid)
    stranger.kill()
    await stranger.wait()
