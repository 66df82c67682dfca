"""Starts hosts of engines: as units of systemd where its socket is, else as processes of their own."""

import asyncio
import logging
import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from poolhouse_agent.engine import host
from poolhouse_agent.errors import EngineError

log = logging.getLogger(__name__)

SYSTEMD_SOCKET = Path("/run/poolhouse-engine.sock")
LEASE = "agent.alive"
LEASE_S = 900.0
_ANSWER_S = 30.0
_MOST_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Launcher:
    """Where hosts are started; `lease` is the file by which they see that an agent lives."""

    lease: Path
    door: Path = SYSTEMD_SOCKET
    lease_s: float = LEASE_S

    @property
    def is_supervised(self) -> bool:
        """Whether systemd keeps the engines, so that they outlive the agent's own unit."""
        return self.door.is_socket()

    async def start(self, order: str) -> None:
        """Start one engine. Raises EngineError `engine_start_failed`."""
        ask = self._by_systemd if self.is_supervised else self._here
        try:
            answer = await asyncio.to_thread(ask, order.encode() + b"\n")
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError("engine_start_failed", f"{type(error).__name__}: {error}"[:300]) from None
        word, _, rest = answer.partition(" ")
        if word != "started":
            raise EngineError("engine_start_failed", rest.strip()[:300] or "the engine's host gave no answer")

    def renew(self) -> None:
        """Show that an agent lives."""
        self.lease.touch(mode=0o600)
        os.utime(self.lease, (time.time(), time.time()))

    def _by_systemd(self, order: bytes) -> str:
        with socket.socket(socket.AF_UNIX) as door:
            door.settimeout(_ANSWER_S)
            door.connect(str(self.door))
            door.sendall(order)
            with door.makefile("r", encoding="utf-8", errors="replace") as answers:
                return answers.readline(_MOST_BYTES)

    def _here(self, order: bytes) -> str:
        """The host forks away from this process, so that nothing of it ends with the agent."""
        done = subprocess.run(  # noqa: S603  our own script
            [sys.executable, "-I", "-S", host.__file__, "--detach"],
            input=order, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False, timeout=_ANSWER_S,
            start_new_session=True,
            env={"PATH": os.environ.get("PATH", os.defpath)}, cwd="/",
        )  # fmt: skip
        return done.stdout.decode("utf-8", "replace")
