"""A child process that leads its own group: started clean, watched, and reaped with everything it started."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from poolhouse_agent.engine import launch, processes

_LAUNCH = Path(launch.__file__)
MARK = "POOLHOUSE_ENGINE_MARK"
_POLL_S = 0.1
_GONE_S = 10.0
_LOG_TAIL_BYTES = 32_768
_LOG_KEEP_BYTES = 8 << 20


@dataclass(slots=True)
class ChildProcess:
    """One engine process with its group, its log and the note that outlives the agent."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    _child: asyncio.subprocess.Process | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        """The engine's output."""
        return self.folder / "engine.log"

    @property
    def note(self) -> Path:
        """Names the running group, so that a later agent can reap it."""
        return self.folder / "process.json"

    @property
    def exit_status(self) -> int | None:
        """The leader's exit status, or None while it runs or was never started."""
        return self._child.returncode if self._child is not None else None

    @property
    def pid(self) -> int:
        """The leader's process id; 0 where there is none."""
        return self._child.pid if self._child is not None else 0

    async def start(self) -> None:
        """Start the process. Raises OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._rotate_log()
        mark = secrets.token_hex(12)
        with self.log.open("ab") as output:
            self._child = await asyncio.create_subprocess_exec(
                sys.executable, "-I", "-S", str(_LAUNCH), str(os.getpid()), *self.argv,
                stdin=asyncio.subprocess.DEVNULL, stdout=output, stderr=output,
                env={**self.environ, MARK: mark}, cwd=self.folder, start_new_session=True,
            )  # fmt: skip
        self.note.write_text(json.dumps({"pid": self._child.pid, "mark": mark}), encoding="ascii")

    async def wait(self) -> int:
        """Wait for the leader to end; return its exit status."""
        if self._child is None:
            return 0
        return await self._child.wait()

    async def stop(self, *, grace_s: float) -> None:
        """Ask the leader to end, wait `grace_s`, then kill the whole group and see it gone."""
        if self._child is None:
            return
        child = self._child
        if child.returncode is None:
            child.send_signal(signal.SIGTERM)
            try:
                async with asyncio.timeout(grace_s):
                    await child.wait()
            except TimeoutError:
                processes.kill_group(child.pid)
                await child.wait()
        await _reap(child.pid, mark="")
        self.note.unlink(missing_ok=True)
        self._child = None

    def tail(self) -> str:
        """The end of the log."""
        try:
            with self.log.open("rb") as handle:
                handle.seek(max(0, self.log.stat().st_size - _LOG_TAIL_BYTES))
                return handle.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    def _rotate_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > _LOG_KEEP_BYTES:
            self.log.replace(self.log.with_suffix(".log.1"))


async def reap_leftovers(engines: Path) -> int:
    """Kill what an agent that died left running below `engines`; return how many processes that were."""
    count = 0
    for pid, mark in _take_notes(engines):
        count += await _reap(pid, mark=mark)
    return count


def _take_notes(engines: Path) -> list[tuple[int, str]]:
    """Read and remove the notes of engines that an earlier agent started."""
    found = []
    for note in sorted(engines.glob("*/process.json")):
        with contextlib.suppress(ValueError, KeyError, TypeError):  # torn by a crash: the group cannot be named
            written = json.loads(note.read_text(encoding="ascii"))
            found.append((int(written["pid"]), str(written["mark"])))
        note.unlink(missing_ok=True)
    return found


async def _reap(leader: int, *, mark: str) -> int:
    """Kill the leader's group until nobody is left; with a mark, only processes that carry it or vLLM's name."""
    loop = asyncio.get_running_loop()
    deadline, killed = loop.time() + _GONE_S, 0
    while members := processes.members(leader, mark=f"{MARK}={mark}" if mark else ""):
        killed = max(killed, len(members))
        for pid in members:
            processes.kill(pid)
        if loop.time() > deadline:
            break
        await asyncio.sleep(_POLL_S)
    return killed
