"""Gateway processes that start in a moment: forked from a program that has imported all of the gateway."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.integration.gateway.pool import Gateway, until


class Forge:
    """The forking program."""

    def __init__(self, environ: dict[str, str], log: Path) -> None:
        self._log = log
        errors = log.open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.forging"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=environ | {"DJANGO_SETTINGS_MODULE": "portal.settings.gateway"},
        )
        errors.close()

    def fork(self, environ: dict[str, str], log: Path) -> int:
        """Return the process id of a new gateway."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"environ": environ, "log": str(log)}).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"the forge is gone: {self._log.read_text()[-4000:]}"
        return int(answer)

    def close(self) -> None:
        """End the program; its children end with it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


@dataclass
class ForkedGateway(Gateway):
    """A gateway of the forge."""

    forge: Forge | None = None
    pid: int = 0

    def start(self) -> "ForkedGateway":
        """Fork the process and wait until it is ready."""
        assert self.forge is not None
        self.pid = self.forge.fork(self.own_environment() | self.environ, self.folder / f"gateway-{self.index}.log")
        until(f"gateway {self.index} is ready", self.is_ready, 60)
        return self

    def is_ready(self) -> bool:
        assert self.is_alive, self.log[-4000:]
        return self.answers_ready()

    @property
    def is_alive(self) -> bool:
        """Whether the process is there."""
        if self.pid <= 0:
            return False
        with suppress(ProcessLookupError):
            os.kill(self.pid, 0)
            return True
        return False

    def kill(self) -> None:
        assert self.pid > 0
        os.kill(self.pid, signal.SIGKILL)
        until("the killed process is gone", lambda: not self.is_alive)

    def stop(self) -> int:
        assert self.pid > 0
        os.kill(self.pid, signal.SIGTERM)
        until("the process has stopped", lambda: not self.is_alive, 60)
        return 0
