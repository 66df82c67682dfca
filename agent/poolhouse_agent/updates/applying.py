"""One update from the wish for it to its end: fetch, build, switch, restart, and back again if the pool is not reached.

Runs as `poolhouse-update.service`, in a process of its own and from the version before: the code that is judged is not
the code that judges. A crash or a reboot in between is found by the note it leaves, and judged then.
"""

import fcntl
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from poolhouse_agent.errors import AgentError, UpdateError
from poolhouse_agent.installation import Installation, Origin
from poolhouse_agent.state import State
from poolhouse_agent.updates import fetching, venvs

WANTED = "release-wanted"
GATE_S = 300.0
_POLL_S = 0.5
_ROLLED_BACK = "release_rolled_back"
_UNREACHABLE = "release_unreachable"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The installation to change, the agent's state to watch, and how to restart the agent."""

    installed: Installation
    state: State
    restart: Callable[[], None]
    gate_s: float = GATE_S


@dataclass(frozen=True, slots=True)
class Outcome:
    """How it went: the version, and a code of the failure catalogue that is empty where the version runs."""

    version: str
    code: str = ""
    detail: str = ""


def apply(around: Surroundings, *, version: str, present: str) -> Outcome:
    """Update to the version and see it reach the pool, or go back. Raises UpdateError, ConfigError, AgentError."""
    with _alone(around.installed):
        origin = around.installed.origin()
        if origin is None:
            raise UpdateError("release_key_missing", "release.json does not exist")
        venv = _made(around.installed, origin, version=version, present=present)
        before = _in_use(around.installed)
        _note(around.installed, {"tried": version, "from": before.name, "to": venv.name, "is_pending": True})
        venvs.switch(around.installed.current, venv)
        return _judge(around, version=version, before=before, present=present)


def _made(installed: Installation, origin: Origin, *, version: str, present: str) -> Path:
    """Fetch and build the version; what keeps it from being had is noted and told. Raises UpdateError."""
    try:
        return venvs.build(installed, fetching.fetch(origin, version=version, present=present))
    except UpdateError as error:
        _note(installed, {"tried": version, "code": error.code})
        raise


def finish_interrupted(around: Surroundings, *, present: str) -> Outcome | None:
    """Judge an update that a crash or a reboot cut off; None where there is none. Raises AgentError."""
    with _alone(around.installed):
        note = around.installed.last_update()
        if not note.get("is_pending"):
            return None
        version, versions = str(note.get("tried", "")), around.installed.versions
        before = versions / str(note.get("from", ""))
        if note.get("has_failed"):
            return _take_back(around, version=version, before=before, present=present)
        if _in_use(around.installed) == before:  # cut off before the switch: nothing happened
            _note(around.installed, {"tried": "", "code": ""})
            return None
        return _judge(around, version=version, before=before, present=present)


def _judge(around: Surroundings, *, version: str, before: Path, present: str) -> Outcome:
    """Restart into the new version; keep it if it reaches the pool in time."""
    installed = around.installed
    if _reaches_pool(around, version=version):
        venvs.switch(installed.updater, _in_use(installed))
        _note(installed, {"tried": version, "code": ""})
        venvs.prune(installed, keep={before, _in_use(installed)})
        return Outcome(version)
    return _take_back(around, version=version, before=before, present=present)


def _take_back(around: Surroundings, *, version: str, before: Path, present: str) -> Outcome:
    """Go back to the version before."""
    installed = around.installed
    _note(installed, {"tried": version, "from": before.name, "is_pending": True, "has_failed": True})
    venvs.switch(installed.current, before)
    # Where the old version does not reach the pool either, the pool was away: that is not the release's fault.
    code = _ROLLED_BACK if _reaches_pool(around, version=present) else _UNREACHABLE
    _note(installed, {"tried": version, "code": code})
    return Outcome(version, code, f"{version} did not reach the pool within {around.gate_s:.0f} s")


def _reaches_pool(around: Surroundings, *, version: str) -> bool:
    """Restart the agent and wait for it to say that it has a session and a tunnel."""
    since = datetime.now(UTC).replace(microsecond=0)
    try:
        around.restart()
    except AgentError:  # systemd waits for READY=1: a version that never gets there fails the restart itself
        return False
    deadline = time.monotonic() + around.gate_s
    while time.monotonic() < deadline:
        if _is_well(around.state.folder / "status.json", version=version, since=since):
            return True
        time.sleep(_POLL_S)
    return False


def _is_well(path: Path, *, version: str, since: datetime) -> bool:
    """Whether the agent of this version wrote, after `since`, that it has a session and a tunnel."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
        written_at = datetime.fromisoformat(value["written_at"])
        is_ours = value["agent_version"] == version and written_at >= since
        return bool(is_ours and value["generation"] > 0 and value["tunnel"] == "connected")
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _in_use(installed: Installation) -> Path:
    return installed.versions / installed.current.readlink().name


def _note(installed: Installation, value: dict[str, object]) -> None:
    path = installed.prefix / "update.json"
    temporary = path.with_name(".update.json")
    stamped = {**value, "at": datetime.now(UTC).isoformat(timespec="seconds")}
    temporary.write_text(json.dumps(stamped, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    temporary.replace(path)


@contextmanager
def _alone(installed: Installation) -> Iterator[None]:
    """One update at a time. Raises UpdateError."""
    handle = os.open(installed.prefix / ".update.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise UpdateError("update_running", "another update has not ended yet") from None
    finally:
        os.close(handle)
