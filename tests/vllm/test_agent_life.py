"""A node's whole life on a real vLLM, from the install script to the end: what breaks is seen and mended."""

import asyncio
import contextlib
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from poolhouse_agent.engine import host, processes

from portal.operators.agent_releases import building
from tests.fakes.pool import Pool, Tunnel, running_pool
from tests.vllm.conftest import CPU_ENVIRONMENT, ROOT
from tests.vllm.test_agent_engine import MODEL, QUESTION, wanted

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(1500)]

START_S = 300.0
STUCK_S = 150.0
SHORTER = 384
# Seconds of work, since it has to be in the middle still when a step breaks what it runs on.
LONG = {"messages": QUESTION, "stream": True, "n": 8, "max_tokens": 450, "ignore_eos": True}
SHORT = {"messages": QUESTION, "max_tokens": 3}


class Node:
    """A machine with the agent as the install script puts it there."""

    def __init__(self, folder: Path, program: str, weights: Path) -> None:
        self.prefix, self.state = folder / "prefix", folder / "state"
        self.config, self.binaries = folder / "agent.toml", folder / "bin"
        self.binaries.mkdir()
        words = "\n".join(f'{name} = "{value}"' for name, value in CPU_ENVIRONMENT.items())
        self.config.write_text(
            f'[models]\n"{MODEL}" = "{weights}"\n[engine]\nvllm = "{program}"\nnvml = "/none"\nkeep_running = true\n'
            f"[engine.environment]\n{words}\n",
            encoding="ascii",
        )
        self.environ = {
            "PATH": os.environ["PATH"], "HOME": str(folder), "POOLHOUSE_STATE": str(self.state),
            "POOLHOUSE_CONFIG": str(self.config), "POOLHOUSE_BIN": str(self.binaries),
        }  # fmt: skip

    def install(self, release: Path) -> None:
        """Run the install script on a release that lies in a folder."""
        script = ["sh", str(ROOT / "agent" / "install.sh"), "--from", str(release), "--prefix", str(self.prefix)]
        done = subprocess.run(
            [*script, "--no-service", "--skip-doctor"], env={**os.environ, **self.environ}, capture_output=True,
            text=True, check=False, timeout=600,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def argv(self, *words: str) -> list[str]:
        """The installed command."""
        program = str(self.prefix / "current" / "bin" / "poolhouse-agent")
        return [program, "--config", str(self.config), "--state", str(self.state), *words]

    async def say(self, *words: str, given: str = "") -> str:
        """Run a command to its end; return what it printed."""
        child = await asyncio.create_subprocess_exec(
            *self.argv(*words), env={**self.environ, "POOLHOUSE_TOKEN": given}, stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        async with asyncio.timeout(180):
            out, err = await child.communicate()
        assert child.returncode == 0, err.decode()
        return out.decode()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.subprocess.Process]:
        """The running agent."""
        with (self.state / "run.log").open("ab") as log:
            child = await asyncio.create_subprocess_exec(
                *self.argv("run"), env=self.environ, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log
            )
        try:
            yield child
        finally:
            if child.returncode is None:
                child.kill()
                await child.wait()

    @contextlib.asynccontextmanager
    async def tidied(self) -> AsyncIterator[None]:
        """Whatever fails, no engine of this node is left."""
        try:
            yield
        finally:
            await self.say("engine", "stop")

    def note(self) -> dict[str, Any]:
        """The running engine's note."""
        found: dict[str, Any] = json.loads(self.notes()[0].read_text(encoding="utf-8"))
        return found

    def notes(self) -> list[Path]:
        """Where the deployment's engines are written down: one that replaced another lies beside its place."""
        return sorted((self.state / "engines").glob(f"dep_1*/{host.NOTE}"))

    def family(self) -> list[int]:
        """The engine's processes."""
        return processes.session_members(self.note()["pid"])


def named(pids: list[int], name: str) -> int:
    """The one of the processes that is called so."""
    return next(pid for pid in pids if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith(name))


async def context_of(tunnel: Tunnel) -> int:
    """The context length of the engine that answers, from how it refuses what is too long."""
    answer = await tunnel.ask({"messages": [{"role": "user", "content": "word " * 2000}]}, 60.0, model=MODEL)
    message = json.loads(answer.body)["error"]["message"]
    found = re.search(r"maximum context length is (\d+)", message)
    assert found, message
    return int(found[1])


def is_alive(pid: int) -> bool:
    return not host.is_ended(pid)


async def until(condition: Callable[[], bool], within_s: float = 60.0) -> None:
    async with asyncio.timeout(within_s):
        while not condition():
            await asyncio.sleep(0.05)


def release(folder: Path) -> Path:
    """The agent of this source, as the portal serves it."""
    built = building.build(ROOT / "agent")
    folder.mkdir()
    (folder / built.wheel_name).write_bytes(built.wheel)
    (folder / "requirements.txt").write_bytes(built.requirements)
    files = {
        "wheel": {"name": built.wheel_name, "sha256": hashlib.sha256(built.wheel).hexdigest()},
        "requirements": {"name": "requirements.txt", "sha256": hashlib.sha256(built.requirements).hexdigest()},
    }
    (folder / "manifest.json").write_text(json.dumps({"version": built.version, "files": files}), encoding="utf-8")
    return folder


def state_of(tunnel: Tunnel) -> str:
    return str(tunnel.statuses[-1][0]["state"]) if tunnel.statuses[-1] else ""


async def ready(tunnel: Tunnel) -> None:
    await tunnel.until(lambda: state_of(tunnel) == "ready", START_S)
    assert (await tunnel.ask(SHORT, 60.0, model=MODEL)).failure is None


class Diary:
    """Says what was shown, and when."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def note(self, what: str) -> None:
        """One line, which `pytest -s` shows."""
        sys.stdout.write(f"{time.monotonic() - self._began:6.1f} s  {what}\n")
        sys.stdout.flush()


async def test_a_nodes_life_on_a_real_vllm(tmp_path: Path, vllm_program: str, tiny_chat: Path) -> None:
    """One engine and its restarts serve all steps, because a start takes half a minute."""
    node, diary = Node(tmp_path, vllm_program, tiny_chat), Diary()
    node.install(release(tmp_path / "release"))
    diary.note("installed")
    async with running_pool() as pool, node.tidied():
        pool.desired = [wanted(tiny_chat)]
        await node.say("join", "--server", pool.server, given=pool.token)
        diary.note("joined")
        async with node.running() as agent:
            await serves_whatever_breaks(node, pool, diary)
            engine = await goes_without_its_engine(node, agent)
            diary.note("agent stopped, the engine runs on")
        async with node.running() as agent:
            await ready(await pool.tunnel(1))
            assert node.note()["pid"] == engine
            diary.note("agent back, engine adopted")
            agent.kill()
            await agent.wait()
        async with node.running() as agent:
            await ready(await pool.tunnel(2))
            assert node.note()["pid"] == engine
            diary.note("agent killed and back, engine adopted")
            await leaves_nothing(node, agent)
        diary.note("left the pool, nothing runs any more")

    assert pool.heartbeats[-1]["wish"] == "leave"
    assert node.notes() == []
    log = (node.state / "run.log").read_text(encoding="utf-8")
    assert QUESTION[0]["content"] not in log
    assert "Traceback" not in log


async def serves_whatever_breaks(node: Node, pool: Pool, diary: Diary) -> None:
    tunnel = await pool.tunnel()
    await ready(tunnel)
    diary.note("engine up, every shape of request answered")
    await drains_without_dropping(node, tunnel)
    diary.note("drained during a stream, nothing dropped; resumed")
    await comes_back_after_a_kill(node, tunnel)
    diary.note("engine killed: restarted, orphans gone")
    await comes_back_from_a_frozen_worker(node, pool, tunnel)
    diary.note("worker frozen: seen by its tokens, restarted")
    await changes_without_dropping(node, pool, tunnel)
    diary.note("context changed during a stream, nothing dropped")


async def goes_without_its_engine(node: Node, agent: asyncio.subprocess.Process) -> int:
    engine = int(node.note()["pid"])
    agent.terminate()
    async with asyncio.timeout(90):
        assert await agent.wait() == 0
    assert is_alive(engine)
    return engine


async def leaves_nothing(node: Node, agent: asyncio.subprocess.Process) -> None:
    family = node.family()
    assert "left the pool" in await node.say("leave")
    async with asyncio.timeout(120):
        assert await agent.wait() == 0
    await until(lambda: not any(map(is_alive, family)))


async def under_way(tunnel: Tunnel) -> int:
    """The number of a stream whose first events have come."""
    stream = await tunnel.begin(LONG, model=MODEL)
    await tunnel.until(lambda: len(tunnel.answers[stream].body) > 500 or tunnel.answers[stream].is_ended)
    assert not tunnel.answers[stream].is_ended, tunnel.answers[stream].failure
    return stream


async def drains_without_dropping(node: Node, tunnel: Tunnel) -> None:
    stream = await under_way(tunnel)

    await node.say("drain")
    await tunnel.until(lambda: state_of(tunnel) == "draining")
    refused = await tunnel.ask(SHORT, model=MODEL)
    still_runs = not tunnel.answers[stream].is_ended
    answer = await tunnel.finish(stream, 60.0)
    await node.say("resume")
    await ready(tunnel)

    assert still_runs
    assert refused.failure["code"] == "draining"
    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"


async def comes_back_after_a_kill(node: Node, tunnel: Tunnel) -> None:
    family, first = node.family(), node.note()["pid"]
    assert len(family) >= 3  # server, EngineCore, worker
    stream = await under_way(tunnel)

    os.kill(first, signal.SIGKILL)
    broken = await tunnel.finish(stream, 60.0)
    await tunnel.until(lambda: state_of(tunnel) in {"failed", "starting"}, 60.0)
    await until(lambda: not any(map(is_alive, family)))
    await ready(tunnel)

    assert broken.failure["code"] == "engine_died"
    assert node.note()["pid"] != first


async def comes_back_from_a_frozen_worker(node: Node, pool: Pool, tunnel: Tunnel) -> None:
    family, first = node.family(), node.note()["pid"]
    worker = named(family, "VLLM::Worker")
    stream = await under_way(tunnel)

    os.kill(worker, signal.SIGSTOP)
    beat = await pool.heartbeat(lambda beat: beat["deployments"][0]["code"] == "engine_stuck", STUCK_S)
    broken = await tunnel.finish(stream, 60.0)
    await until(lambda: not any(map(is_alive, family)), 120.0)
    await ready(tunnel)

    assert beat["deployments"][0]["state"] == "stuck"
    assert broken.failure["code"] == "engine_died"
    assert node.note()["pid"] != first


async def changes_without_dropping(node: Node, pool: Pool, tunnel: Tunnel) -> None:
    first = node.note()["pid"]
    stream = await under_way(tunnel)

    pool.desired = [pool.desired[0] | {"context_tokens": SHORTER}]
    answer = await tunnel.finish(stream, 60.0)
    await until(lambda: not is_alive(first), START_S)
    await ready(tunnel)

    assert answer.failure is None
    assert answer.events[-1] == "[DONE]"
    assert await context_of(tunnel) == SHORTER
