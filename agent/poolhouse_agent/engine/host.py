"""The parent of one engine: starts it, outlives the agent, and leaves nothing of it behind.

Runs as a program (`host.py`), by the agent or by systemd's `poolhouse-engine@`. It reads one JSON object on stdin,
answers one line on stdout (`started PID`, or `failed WHY`), and ends when the engine has ended. The standard library
alone: nothing of the agent is loaded, so that it costs little and an upgrade of the agent does not touch it.
"""

import contextlib
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MARK = "POOLHOUSE_ENGINE_MARK"
NOTE = "process.json"
ENDED = "ended.json"
LOG = "engine.log"
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_LOG_KEEP_BYTES = 8 << 20
_LOOK_S = 5.0
_GONE_S = 15.0
_CLEANUP_S = 30.0
_CPU_STATE, _PARENT, _STARTED = 0, 1, 19  # fields of /proc/PID/stat behind the name, see proc(5)


@dataclass(frozen=True, slots=True)
class Order:
    """What to run. `lease` is a file that a living agent touches: where it is older than `lease_s`, the engine ends.

    With `has_scratch` the engine gets a folder for temporary files of its own, which goes with it.
    """

    argv: Sequence[str]
    environ: Mapping[str, str]
    folder: Path
    mark: str
    note: Mapping[str, Any]
    grace_s: float
    lease: Path
    lease_s: float
    cleanup: Sequence[str]
    has_scratch: bool


def read(text: str) -> Order:
    """Read an order. Raises ValueError, KeyError, TypeError."""
    raw = json.loads(text)
    return Order(
        argv=[str(word) for word in raw["argv"]],
        environ={str(name): str(value) for name, value in raw["environ"].items()},
        folder=Path(raw["folder"]),
        mark=str(raw["mark"]),
        note=dict(raw.get("note", {})),
        grace_s=float(raw.get("grace_s", 60.0)),
        lease=Path(raw["lease"]),
        lease_s=float(raw.get("lease_s", 900.0)),
        cleanup=[str(word) for word in raw.get("cleanup", [])],
        has_scratch=bool(raw.get("has_scratch", False)),
    )


def main() -> int:
    """Serve one order. Returns 0 where the engine was started, whatever became of it."""
    try:
        order = read(sys.stdin.readline())
    except (ValueError, KeyError, TypeError) as error:
        _answer(f"failed the order cannot be read: {error}")
        return 2
    if "--detach" in sys.argv[1:] and os.fork():
        os._exit(0)  # the parent had nothing to do but to hand over
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP})
    scratch = tempfile.mkdtemp(prefix="ph-") if order.has_scratch else ""  # short: sockets' paths have 107 characters
    try:
        return _serve(order, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _serve(order: Order, scratch: str) -> int:
    try:
        engine = _start(order, scratch)  # kept: a Popen that goes takes its child's exit status with it
    except OSError as error:
        _answer(f"failed {error}")
        return 1
    _answer(f"started {engine.pid}")
    status = _wait(order, engine.pid)
    left = _end_all()
    clean(order.cleanup)
    replace(order.folder / ENDED, {"mark": order.mark, "status": status, "left": left})
    (order.folder / NOTE).unlink(missing_ok=True)
    return 0


def _start(order: Order, scratch: str) -> "subprocess.Popen[bytes]":
    """Start the engine in a session of its own and write the note. Raises OSError."""
    environ = {**order.environ, MARK: order.mark, **({"TMPDIR": scratch} if scratch else {})}
    order.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (order.folder / ENDED).unlink(missing_ok=True)
    log = order.folder / LOG
    if log.exists() and log.stat().st_size > _LOG_KEEP_BYTES:
        log.replace(log.with_suffix(".log.1"))
    with log.open("ab") as output:
        child = subprocess.Popen(  # noqa: S603  the agent's own list of arguments
            order.argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=order.folder,
            env=environ, start_new_session=True, preexec_fn=_in_the_child,  # noqa: PLW1509  one thread
        )  # fmt: skip
    note = {
        **order.note,
        "grace_s": order.grace_s,
        "pid": child.pid,
        "host": os.getpid(),
        "mark": order.mark,
        "cleanup": list(order.cleanup),
    }
    replace(order.folder / NOTE, {**note, "started": started_at(child.pid), "host_started": started_at(os.getpid())})
    return child


def _in_the_child() -> None:
    """An engine without its host has nobody to end it: it dies with it. Signals are the engine's own again."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.pthread_sigmask(signal.SIG_SETMASK, set())


def _wait(order: Order, leader: int) -> int:
    """Wait for the leader's end; return its exit status (negative: a signal).

    SIGTERM, or an agent that is gone for too long, lets it finish what runs; SIGINT does not.
    """
    kill_at: float | None = None
    began = time.monotonic()
    while True:
        look_s = min(_LOOK_S, order.lease_s / 2)
        pause_s = look_s if kill_at is None else min(look_s, max(0.05, kill_at - time.monotonic()))
        got = signal.sigtimedwait({signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}, pause_s)
        status = _collect(leader)
        if status is not None:
            return status
        asked = got.si_signo if got is not None else 0
        if asked == signal.SIGINT:
            return _kill(leader)
        if kill_at is None and (asked == signal.SIGTERM or _is_abandoned(order, time.monotonic() - began)):
            os.kill(leader, signal.SIGTERM)
            kill_at = time.monotonic() + order.grace_s
        if kill_at is not None and time.monotonic() > kill_at:
            return _kill(leader)


def _kill(leader: int) -> int:
    """End the leader by force. Where the kernel does not let it die, it stays among what is left."""
    os.kill(leader, signal.SIGKILL)
    deadline = time.monotonic() + _GONE_S
    while time.monotonic() < deadline:
        if (status := _collect(leader)) is not None:
            return status
        signal.sigtimedwait({signal.SIGCHLD}, 0.1)
    return -signal.SIGKILL


def _is_abandoned(order: Order, running_s: float) -> bool:
    """Whether no agent has shown itself for so long that the engine would only burn power."""
    try:
        age_s = time.time() - order.lease.stat().st_mtime
    except OSError:
        age_s = running_s
    return min(age_s, running_s) > order.lease_s


def _collect(leader: int) -> int | None:
    """Take in ended children; return the leader's exit status once it is among them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if pid == 0:
            return None
        if pid == leader:
            return os.waitstatus_to_exitcode(status)


def _end_all() -> list[int]:
    """Kill all that the engine started: as its subreaper every orphan is ours. Returns what cannot be killed."""
    deadline = time.monotonic() + _GONE_S
    while True:
        _collect(-1)
        found = descendants(os.getpid())
        if not found or time.monotonic() > deadline:
            return found
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        signal.sigtimedwait({signal.SIGCHLD}, 0.1)


def descendants(ancestor: int) -> list[int]:
    """Live processes below `ancestor`."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _fields(folder)) and fields[_CPU_STATE] not in "ZX":
            parents[int(folder.name)] = int(fields[_PARENT])
    found, wave = [], {ancestor}
    while wave := {pid for pid, parent in parents.items() if parent in wave}:
        found += sorted(wave)
    return found


def started_at(pid: int) -> int:
    """When the process started, in ticks since boot; 0 where there is none. With the id it names one process."""
    fields = _fields(Path(f"/proc/{pid}"))
    return int(fields[_STARTED]) if fields else 0


def is_ended(pid: int) -> bool:
    """Whether the process is gone, or a remainder that nobody has taken in."""
    fields = _fields(Path(f"/proc/{pid}"))
    return not fields or fields[_CPU_STATE] in "ZX"


def _fields(folder: Path) -> list[str]:
    try:
        text = (folder / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()


def clean(argv: Sequence[str]) -> None:
    """Run what takes away a container that outlived its command."""
    if argv:
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=_CLEANUP_S)  # noqa: S603  the agent's own words


def replace(path: Path, value: object) -> None:
    """Write a JSON file as a whole, readable by its owner alone."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(handle, "w", encoding="utf-8") as output:
        json.dump(value, output)
    Path(temporary).replace(path)


def _answer(line: str) -> None:
    """Tell the agent, which may be gone; then let go of its connection and of its other streams."""
    with contextlib.suppress(OSError):
        os.write(1, f"{line}\n".encode())
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):
        os.dup2(nothing, stream)
    os.close(nothing)


if __name__ == "__main__":
    sys.exit(main())
