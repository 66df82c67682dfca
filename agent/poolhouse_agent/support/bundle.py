"""Gathers the support bundle: status, doctor, configuration and logs, each with its secrets and request texts out."""

import asyncio
import io
import json
import os
import shutil
import sys
import tarfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import poolhouse_agent
from poolhouse_agent import VERSION, children, host, status
from poolhouse_agent.config import Config
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.state import State
from poolhouse_agent.support.redaction import Redactor

_UNIT = "poolhouse-agent"
_DEADLINE_S = 90.0
_LOG_BYTES = 256 << 10
_MAX_FILES = 2_000
_STATE_FILES = ("node.json", "owner.json", "power.json", "downloads.json", "wish")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the bundle's parts come from."""

    state: State
    config: Config
    config_file: Path


async def gather(source: Source, *, now: datetime) -> dict[str, str]:
    """Return the bundle's files by name, redacted. What cannot be read says so in its place."""
    redactor = Redactor(_secrets(source))
    files = {"about.json": _json(_about(now))}
    files["status.json"] = _json(redactor.value(_status(source.state, now)))
    files["configuration.json"] = _json(redactor.value(_configuration(source.config_file)))
    files["state-folder.txt"] = "\n".join(_listing(source.state.folder)) + "\n"
    for name in _STATE_FILES:
        if (source.state.folder / name).is_file():
            files[f"state/{name}"] = redactor.text(_tail(source.state.folder / name))
    for log in sorted(source.state.engines.glob("*/engine.log*")):
        files[f"engines/{log.parent.name}/{log.name}"] = redactor.engine_log(_tail(log))
    files["doctor.json"] = redactor.text(await _doctor(source))
    files["agent.log"] = redactor.own_log(await _journal())
    return files


def pack(files: Mapping[str, str], *, now: datetime) -> bytes:
    """Return the files as a compressed archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, text in files.items():
            content = text.encode()
            entry = tarfile.TarInfo(f"poolhouse-support/{name}")
            entry.size, entry.mtime, entry.mode = len(content), int(now.timestamp()), 0o600
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _about(now: datetime) -> dict[str, Any]:
    return {
        "created_at": now.isoformat(timespec="seconds"), "agent_version": VERSION,
        "python": sys.version.split()[0], "host": {**host.facts(), **host.load()},
    }  # fmt: skip


def _secrets(source: Source) -> Iterator[str]:
    """The texts that only this machine's owner should hold."""
    yield from source.config.engine_environment.values()
    keys = [server.api_key_file for server in source.config.external.values() if server.api_key_file]
    for path in (*keys, source.state.key_file):
        yield from _tail(path).split()


def _status(state: State, now: datetime) -> Any:
    membership = state.membership()
    if membership is None:
        return {"code": "not_joined"}
    found = status.gather(state, membership, now=now)
    for deployment in found.get("deployments", ()):
        deployment["detail"] = "[left out: it may hold the engine's own words]" if deployment["detail"] else ""
    return found


def _configuration(path: Path) -> Any:
    """The file as it was read, the values of environment variables left out whatever they are."""
    try:
        found = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return {"unreadable": type(error).__name__}
    engine = found.get("engine")
    if isinstance(engine, dict) and isinstance(engine.get("environment"), dict):
        engine["environment"] = dict.fromkeys(engine["environment"], "***")
    return found


def _listing(folder: Path) -> Iterator[str]:
    for count, path in enumerate(sorted(folder.rglob("*"))):
        if count == _MAX_FILES:
            yield "and more"
            return
        found = path.lstat()
        yield f"{found.st_mode:o} {found.st_uid}:{found.st_gid} {found.st_size} {path.relative_to(folder)}"


async def _doctor(source: Source) -> str:
    return await _output(
        sys.executable, "-m", "poolhouse_agent", "--config", str(source.config_file), "--state",
        str(source.state.folder), "doctor", "--json",
    )  # fmt: skip


async def _journal() -> str:
    program = shutil.which("journalctl")
    if program is None:
        return ""
    return await _output(program, "-u", _UNIT, "-n", "2000", "-o", "cat", "--no-pager")


async def _output(*argv: str) -> str:
    child = await asyncio.create_subprocess_exec(
        *argv, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1])},
    )  # fmt: skip
    output = await children.answer(child, deadline_s=_DEADLINE_S)
    if output is None:
        return f"no answer within {_DEADLINE_S:.0f} s\n"
    return output.decode("utf-8", "replace")


def _tail(path: Path) -> str:
    """The end of a file from a whole line on; empty where it cannot be read."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(max(0, size - _LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ""
    return text.partition("\n")[2] if size > _LOG_BYTES else text


def _json(value: Any) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n"


def require_folder(path: Path) -> None:
    """Refuse a place where no file can be written. Raises ConfigError."""
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise ConfigError("state_unwritable", f"{path.parent} cannot be written to; choose a place with --output")
