"""An engine's host: starts it, outlives the agent, and leaves nothing of it behind."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from poolhouse_agent.engine import host
from poolhouse_agent.engine.launch import Launcher
from poolhouse_agent.engine.notes import Note
from poolhouse_agent.engine.process import Command, EngineProcess
from poolhouse_agent.errors import EngineError

from tests.agent.engine.machine import is_alive

# Its child leaves the session, forgets its parent and does not hear SIGTERM: the worst that an engine's worker does.
STRAY = """
import os, pathlib, signal, subprocess, sys, time
code = "import signal, time; signal.signal(15, signal.SIG_IGN); print(flush=True); time.sleep(600)"
child = subprocess.Popen([sys.executable, "-c", code], start_new_session=True, stdout=subprocess.PIPE)
child.stdout.readline()
pathlib.Path("stray").write_text(str(child.pid))
pathlib.Path("scratch").write_text(os.environ.get("TMPDIR", ""))
{then}
"""


async def until(path: Path) -> str:
    """The file's text, once there is one."""
    async with asyncio.timeout(10):
        while not path.exists() or not path.read_text(encoding="ascii"):
            await asyncio.sleep(0.02)
    return path.read_text(encoding="ascii")


class Bench:
    """Starts scripts as engines."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "dep_1"
        self.launcher = Launcher(folder / "agent.alive", door=folder / "none")

    async def start(self, then: str, *, launcher: Launcher | None = None, grace_s: float = 5.0) -> EngineProcess:
        """An engine with a stray child that goes on as told."""
        engine = EngineProcess(self.folder, launcher or self.launcher)
        argv = [sys.executable, "-c", STRAY.format(then=then)]
        command = Command(argv, {"PATH": os.environ["PATH"]}, grace_s, has_scratch=True)
        await engine.start(command, ordered={"desired": {}})
        await until(self.folder / "scratch")
        return engine

    @property
    def stray(self) -> int:
        return int((self.folder / "stray").read_text(encoding="ascii"))


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench(tmp_path)
    yield made
    if (made.folder / host.NOTE).exists():
        os.kill(json.loads((made.folder / host.NOTE).read_text(encoding="utf-8"))["host"], signal.SIGKILL)


async def test_what_left_the_session_is_ended_with_the_engine(bench: Bench) -> None:
    engine = await bench.start("sys.exit(3)")

    status = await asyncio.wait_for(engine.wait(), 20)

    assert status == 3
    assert not is_alive(bench.stray)
    assert not (bench.folder / host.NOTE).exists()


class _Late(Launcher):
    """Comes back when the engine that it started is gone again."""

    async def start(self, order: str) -> None:
        folder = Path(json.loads(order)["folder"])
        await super().start(order)
        await until(folder / host.ENDED)
        while (folder / host.NOTE).exists():
            await asyncio.sleep(0.01)


async def test_an_engine_that_ends_at_once_tells_its_status_all_the_same(bench: Bench, tmp_path: Path) -> None:
    engine = EngineProcess(bench.folder, _Late(tmp_path / "agent.alive", door=tmp_path / "none"))

    await engine.start(Command(["/bin/false"], {}, 5.0), ordered={"desired": {}})

    assert engine.exit_status == 1
    assert await asyncio.wait_for(engine.wait(), 5) == 1
    await engine.stop()


async def test_an_engine_that_is_killed_leaves_nothing(bench: Bench) -> None:
    engine = await bench.start("time.sleep(600)")

    os.kill(engine.pid, signal.SIGKILL)
    status = await asyncio.wait_for(engine.wait(), 20)

    assert status == -signal.SIGKILL
    assert not is_alive(bench.stray)
    assert not Path((bench.folder / "scratch").read_text(encoding="ascii")).exists()


async def test_a_stop_waits_for_the_engine_to_finish(bench: Bench) -> None:
    finish = "signal.signal(15, lambda *_: (time.sleep(0.5), pathlib.Path('finished').touch(), os._exit(0)))"
    engine = await bench.start(f"{finish}\nprint('ready', flush=True)\ntime.sleep(600)")
    await until(bench.folder / host.LOG)

    await engine.stop()

    assert (bench.folder / "finished").exists()
    assert engine.exit_status == 0
    assert not is_alive(bench.stray)


async def test_an_engine_that_does_not_hear_is_killed_after_its_grace(bench: Bench) -> None:
    engine = await bench.start(
        "signal.signal(15, signal.SIG_IGN)\nprint('deaf', flush=True)\ntime.sleep(600)", grace_s=0.3
    )
    await until(bench.folder / host.LOG)

    await engine.stop()

    assert engine.exit_status == -signal.SIGKILL
    assert not is_alive(bench.stray)


async def test_without_its_host_the_engine_dies_and_the_rest_is_reaped(bench: Bench) -> None:
    engine = await bench.start("time.sleep(600)")
    assert engine.note is not None
    leader = engine.pid

    os.kill(engine.note.host, signal.SIGKILL)
    status = await asyncio.wait_for(engine.wait(), 20)

    assert status == -signal.SIGKILL
    assert not is_alive(leader)
    assert not is_alive(bench.stray)


async def test_an_engine_that_no_agent_looks_after_ends_by_itself(bench: Bench) -> None:
    launcher = Launcher(bench.launcher.lease, door=bench.launcher.door, lease_s=0.5)
    engine = await bench.start("time.sleep(600)", launcher=launcher)

    status = await asyncio.wait_for(engine.wait(), 30)

    assert status == -signal.SIGTERM
    assert not is_alive(bench.stray)


async def test_an_engine_whose_agent_took_its_folder_away_ends_too(bench: Bench) -> None:
    launcher = Launcher(bench.launcher.lease, door=bench.launcher.door, lease_s=0.5)
    engine = await bench.start("time.sleep(600)", launcher=launcher)
    bench.launcher.lease.unlink()

    assert await asyncio.wait_for(engine.wait(), 30) == -signal.SIGTERM


async def test_it_lives_on_while_an_agent_shows_itself(bench: Bench) -> None:
    launcher = Launcher(bench.launcher.lease, door=bench.launcher.door, lease_s=3600)
    engine = await bench.start("time.sleep(600)", launcher=launcher)

    engine.let_go()
    again = EngineProcess(bench.folder, launcher)
    note = Note.read(bench.folder)
    assert note is not None
    again.adopt(note)

    assert note.is_live
    assert is_alive(again.pid)
    await again.stop()
    assert not is_alive(bench.stray)


async def test_a_program_that_is_not_there_is_told_at_once(bench: Bench) -> None:
    engine = EngineProcess(bench.folder, bench.launcher)

    with pytest.raises(EngineError) as refused:
        await engine.start(Command(["/none/vllm"], {}, 1.0), ordered={})

    assert refused.value.code == "engine_start_failed"
    assert "/none/vllm" in refused.value.detail


def test_an_order_that_is_none_is_refused() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", host.__file__], input=b"{}\n", capture_output=True, check=False)

    assert done.returncode == 2
    assert done.stdout.startswith(b"failed the order cannot be read")


async def test_where_systemd_listens_the_order_goes_there(bench: Bench, tmp_path: Path) -> None:
    """The test is the service manager: it hands each connection to a host as its standard streams."""
    door = tmp_path / "engine.sock"
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(door))
    listener.listen()
    hosts: list[subprocess.Popen[bytes]] = []

    def serve() -> None:
        connection, _ = listener.accept()
        hosts.append(subprocess.Popen([sys.executable, "-I", "-S", host.__file__], stdin=connection, stdout=connection))
        connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    launcher = Launcher(tmp_path / "agent.alive", door=door)
    engine = await bench.start("time.sleep(600)", launcher=launcher)
    thread.join()

    assert launcher.is_supervised
    assert engine.note is not None
    assert engine.note.host == hosts[0].pid
    await engine.stop()
    assert hosts[0].wait(10) == 0
    listener.close()
