"""An engine's processes as the agent sees them: started by a host, watched, adopted, and reaped with everything."""

import asyncio
import json
import os
import secrets
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from poolhouse_agent.engine import host, notes, processes
from poolhouse_agent.engine.launch import Launcher
from poolhouse_agent.engine.notes import Note
from poolhouse_agent.errors import EngineError

_POLL_S = 0.1
_GONE_S = 10.0
_HOST_SLACK_S = 20.0
_LOG_TAIL_BYTES = 32_768


@dataclass(frozen=True, slots=True)
class Command:
    """What to start: program, arguments, the whole environment, how long its end may take, what cleans up after it."""

    argv: Sequence[str]
    environ: Mapping[str, str]
    grace_s: float
    cleanup: Sequence[str] = ()
    has_scratch: bool = False


@dataclass(slots=True)
class EngineProcess:
    """One engine in its folder, under a host that outlives the agent."""

    folder: Path
    launcher: Launcher
    note: Note | None = field(default=None, init=False)
    _status: int | None = field(default=None, init=False)
    _ended: asyncio.Task[int] | None = field(default=None, init=False)

    @property
    def exit_status(self) -> int | None:
        """The engine's exit status (negative: a signal), or None while it runs or was never started."""
        return self._status

    @property
    def pid(self) -> int:
        """The engine's process id; 0 where there is none."""
        return self.note.pid if self.note is not None else 0

    async def start(self, command: Command, *, ordered: Mapping[str, Any]) -> None:
        """Start it; `ordered` is what a later agent must know to adopt it. Raises EngineError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        mark = secrets.token_hex(12)
        order = {
            "argv": list(command.argv), "environ": dict(command.environ), "folder": str(self.folder), "mark": mark,
            "note": dict(ordered), "grace_s": command.grace_s, "cleanup": list(command.cleanup),
            "lease": str(self.launcher.lease), "lease_s": self.launcher.lease_s,
            "has_scratch": command.has_scratch,
        }  # fmt: skip
        self.launcher.renew()
        await self.launcher.start(json.dumps(order))
        note = Note.read(self.folder)
        if note is not None and note.mark == mark:
            self.adopt(note)
            return
        status = _ended(self.folder, mark)
        if status is None:
            raise EngineError("engine_start_failed", "the engine ended at once")
        # It ended before it could be looked at; whoever waits for it learns its status, and its log says why.
        self.note, self._status = None, status
        self._ended = asyncio.create_task(_known(status))

    def adopt(self, note: Note) -> None:
        """Watch an engine that runs already."""
        self.note, self._status = note, None
        self._ended = asyncio.create_task(self._watch(note))

    async def wait(self) -> int:
        """Wait for the engine to end; return its exit status."""
        if self._ended is None:
            return 0
        return await asyncio.shield(self._ended)

    async def stop(self, *, at_once: bool = False) -> None:
        """Let it finish what runs, or not; see all of it gone. Raises EngineError `needs_reboot`."""
        note, ended = self.note, self._ended
        if note is None or ended is None:
            return
        processes.signal_one(note.host, signal.SIGINT if at_once else signal.SIGTERM, started=note.host_started)
        grace_s = _HOST_SLACK_S + (0.0 if at_once else float(note.ordered.get("grace_s", 0.0)))
        await asyncio.wait({ended}, timeout=grace_s)
        if not ended.done():
            processes.signal_one(note.host, signal.SIGKILL, started=note.host_started)
        await self._sweep(note)
        await asyncio.wait({ended}, timeout=_GONE_S)
        self.note = self._ended = None

    def let_go(self) -> None:
        """Watch it no more; it runs on, for the next agent to adopt."""
        if self._ended is not None:
            self._ended.cancel()
        self._ended = None

    def tail(self) -> str:
        """The end of the engine's log."""
        path = self.folder / host.LOG
        try:
            with path.open("rb") as handle:
                handle.seek(max(0, path.stat().st_size - _LOG_TAIL_BYTES))
                return handle.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""

    async def _watch(self, note: Note) -> int:
        """Wait for the host, which ends when all of the engine has ended; without a host, end what it left."""
        await _gone(note.host, note.host_started)
        written = _ended(note.folder, note.mark)
        if written is None:
            await _reap(note)
        self._status = -signal.SIGKILL if written is None else written
        return self._status

    async def _sweep(self, note: Note) -> None:
        await _reap(note)
        if left := processes.members(note.pid, mark=f"{host.MARK}={note.mark}"):
            raise EngineError("needs_reboot", f"process {left[0]} cannot be ended")
        note.remove()


async def reap_leftovers(engines: Path) -> int:
    """Kill what engines without a host left running below `engines`; return how many processes that were."""
    count = 0
    for note in notes.all_notes(engines):
        if not note.is_live:
            count += await _reap(note)
            note.remove()
    return count


async def _gone(pid: int, started: int) -> None:
    """Wait until the process has ended. It need not be a child."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()
    try:
        if host.started_at(pid) != started:
            return
        loop.add_reader(handle, _settle, over)
        await over
    finally:
        loop.remove_reader(handle)
        os.close(handle)


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)


async def _known(status: int) -> int:
    return status


def _ended(folder: Path, mark: str) -> int | None:
    """The exit status that the host wrote down; None where it could not."""
    try:
        written = json.loads((folder / host.ENDED).read_text(encoding="utf-8"))
        return int(written["status"]) if written["mark"] == mark else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


async def _reap(note: Note) -> int:
    """Kill the host, and all that carries the mark or is vLLM's in the engine's session, until nobody is left."""
    loop = asyncio.get_running_loop()
    deadline, killed = loop.time() + _GONE_S, 0
    processes.signal_one(note.host, signal.SIGKILL, started=note.host_started)
    while members := processes.members(note.pid, mark=f"{host.MARK}={note.mark}"):
        killed = max(killed, len(members))
        for pid in members:
            processes.signal_one(pid, signal.SIGKILL)
        if loop.time() > deadline:
            break
        await asyncio.sleep(_POLL_S)
    if note.cleanup:
        await asyncio.to_thread(host.clean, note.cleanup)
    return killed
