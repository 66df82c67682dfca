"""The agent tells systemd that it is up, alive and going down; outside systemd it says nothing."""

import asyncio
import os
import signal
import socket
import sys
from pathlib import Path

import pytest
from poolhouse_agent.state import State
from poolhouse_agent.units.notify import Notifier

from tests.agent.conftest import join
from tests.fakes.pool import Pool


class Listener:
    """What systemd would hear."""

    def __init__(self, address: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(address)
        self._socket.setblocking(False)

    async def next(self) -> str:
        async with asyncio.timeout(30):
            return (await asyncio.get_running_loop().sock_recv(self._socket, 4096)).decode()

    def close(self) -> None:
        self._socket.close()


async def test_a_running_agent_is_ready_beats_and_stops(pool: Pool, state: State, tmp_path: Path) -> None:
    await join(pool, state)
    listener = Listener(str(tmp_path / "notify"))
    environ = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "300000"}
    (tmp_path / "agent.toml").touch()

    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "poolhouse_agent", "--config", str(tmp_path / "agent.toml"), "--state", str(state.folder),
        "run", env=environ, stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    first, beats = await listener.next(), [await listener.next() for _ in range(3)]
    child.send_signal(signal.SIGTERM)
    while (last := await listener.next()).startswith("WATCHDOG=1"):
        pass
    status = await child.wait()
    listener.close()

    assert first == "READY=1"
    node = state.membership().node
    assert all(beat.startswith(f"WATCHDOG=1\nSTATUS={node}: ") for beat in beats)
    assert last == "STOPPING=1"
    assert status == 0


async def test_an_abstract_address_is_understood() -> None:
    listener = Listener(f"\0poolhouse-test-{os.getpid()}")

    Notifier({"NOTIFY_SOCKET": f"@poolhouse-test-{os.getpid()}"}).ready()

    assert await listener.next() == "READY=1"
    listener.close()


def test_a_watchdog_for_another_process_is_not_ours() -> None:
    ours = {"NOTIFY_SOCKET": "/x", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getpid())}

    assert Notifier(ours).is_watched
    assert not Notifier({**ours, "WATCHDOG_PID": "1"}).is_watched
    assert not Notifier({"WATCHDOG_USEC": "1000000"}).is_watched


@pytest.mark.parametrize("environ", [{}, {"NOTIFY_SOCKET": "/nowhere/notify"}])
def test_without_anybody_to_hear_it_goes_on(environ: dict[str, str]) -> None:
    Notifier(environ).ready()
