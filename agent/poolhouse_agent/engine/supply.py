"""Gets what an engine lacks on this machine: the model's files, and the pinned version of the engine."""

import asyncio
import hashlib
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import poolhouse_agent
from poolhouse_agent.config import Downloads
from poolhouse_agent.engine import fetch, host, install, versions, weights
from poolhouse_agent.engine.launch import Launcher
from poolhouse_agent.engine.notes import Note
from poolhouse_agent.engine.process import Command, EngineProcess
from poolhouse_agent.errors import EngineError, PortalError
from poolhouse_agent.protocol.messages import Manifest

DOOR = Path("/run/poolhouse-download.sock")
WEIGHTS = "weights"
_SOURCE = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,63}")
_PATH = re.compile(r"(?:[A-Za-z0-9_][\w.+-]*/)*[A-Za-z0-9_][\w.+-]*")
_LOOK_S = 0.5
_GRACE_S = 3.0
_PASSED = ("http_proxy", "https_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")

Tell = Callable[[str, int, int], None]


class Quota(Protocol):
    """How much the owner lets this machine fetch."""

    def left_bytes(self) -> int | None:
        """Return what may still be fetched; None where there is no limit."""
        ...

    def note(self, count: int) -> None:
        """Add bytes that were fetched."""
        ...


class NoQuota:
    """No limit."""

    def left_bytes(self) -> int | None:
        """There is no limit."""
        return None

    def note(self, count: int) -> None:
        """Nothing is counted."""


@dataclass(slots=True)
class Supply:
    """Fetches into the state folder by processes of its own; `manifest` asks the portal for a model's files."""

    folder: Path
    terms: Downloads
    manifest: Callable[[str], Awaitable[Manifest]]
    launcher: Launcher
    quota: Quota = field(default_factory=NoQuota)
    _busy: dict[str, asyncio.Lock] = field(default_factory=dict)

    def weights(self, digest: str) -> Path | None:
        """Where the fetched files of this digest lie, if they do."""
        path = self.folder / WEIGHTS / digest
        return path if digest and path.is_dir() else None

    async def fetch_weights(self, digest: str, *, tell: Tell) -> Path:
        """Fetch a model's files where they are not there; return their folder. Raises EngineError."""
        async with self._busy.setdefault(digest, asyncio.Lock()):
            if (there := self.weights(digest)) is not None:
                return there
            if not self.terms.enabled:
                raise EngineError("download_disabled", digest[:12])
            into = self.folder / WEIGHTS / digest
            await self._fetch(await self._checked(digest), into, tell=tell)
            return into

    async def install(self, version: str, *, tell: Tell) -> None:
        """Install a version of vLLM where it is not there. Raises EngineError."""
        root = self.folder / versions.ROOT
        async with self._busy.setdefault(version, asyncio.Lock()):
            if versions.is_complete(root / versions.require_sound(version)):
                return
            if not self.terms.enabled:
                raise EngineError("engine_version_missing", f"vLLM {version}")
            tell(f"vLLM {version}", 0, 0)
            folder = _made(root / f".fetch-{version}")
            process = EngineProcess(folder, self.launcher)
            argv = [sys.executable, "-m", install.__name__, version, str(root)]
            if await self._run(process, argv):
                raise EngineError("engine_install_failed", f"vLLM {version}: {folder / host.LOG}")

    async def _checked(self, digest: str) -> Manifest:
        """Ask for the manifest, and believe it only as far as the digest proves it. Raises EngineError."""
        try:
            found = await self.manifest(digest)
        except PortalError as error:
            raise EngineError("weights_missing", f"no list of files for {digest[:12]}: {error.code}") from None
        if folder_digest(found.files) != digest:
            raise EngineError("weights_mismatch", "the pool's list of files is not that of the digest")
        found = replace(found, source=found.source.removeprefix(f"{self.terms.hub}/"))  # as catalogues also write it
        if not _SOURCE.fullmatch(found.source) or not _REVISION.fullmatch(found.revision):
            raise EngineError("download_refused", f"source {found.source[:96]!r}, revision {found.revision[:64]!r}")
        for path in found.files:
            if not _PATH.fullmatch(path) or ".." in path:
                raise EngineError("download_refused", f"file {path[:96]!r}")
            weights.require_kind(path)
        return found

    async def _fetch(self, found: Manifest, into: Path, *, tell: Tell) -> None:
        left = self.quota.left_bytes()
        if left is not None and left <= 0:
            raise EngineError("download_quota_reached", "nothing is left of the owner's quota")
        folder = _made(into.with_name(f".fetch-{into.name[:24]}"))
        (folder / fetch.RESULT).unlink(missing_ok=True)
        order = {
            "base": f"{self.terms.hub}/{found.source}/resolve/{found.revision}",
            "files": [{"path": path, "sha256": digest} for path, digest in sorted(found.files.items())],
            "into": str(into), "rate_bytes_s": self.terms.rate_bytes_s, "most_bytes": left or 0,
            "keep_free_bytes": self.terms.keep_free_bytes,
        }  # fmt: skip
        fetch.replace(folder / "order.json", order)
        argv = [sys.executable, "-I", "-S", fetch.__file__, str(folder / "order.json")]
        watch = asyncio.create_task(_tell_progress(folder, found.source, tell))
        try:
            await self._run(EngineProcess(folder, self.launcher), argv)
        finally:
            watch.cancel()
        result = _json(folder / fetch.RESULT)
        self.quota.note(int(result.get("fetched_bytes", 0)))
        if code := str(result.get("code", "download_failed")):
            raise EngineError(code, str(result.get("detail", "the download ended without a word"))[:300])

    async def _run(self, process: EngineProcess, argv: Sequence[str]) -> int:
        """Run it under a host, or go on watching where an earlier agent began; return its exit status."""
        note = Note.read(process.folder)
        if note is not None and note.is_live:
            process.adopt(note)
        else:
            await process.start(Command(argv, _environment(process.folder), _GRACE_S), ordered={})
        try:
            return await process.wait()
        except asyncio.CancelledError:
            await asyncio.shield(process.stop(at_once=True))  # nothing is lost: the next one resumes
            raise


def folder_digest(files: Mapping[str, str]) -> str:
    """The digest that a folder of these files would have; see `artefacts.folder_digest`."""
    lines = "".join(f"{digest}  {path}\n" for path, digest in sorted(files.items()))
    return hashlib.sha256(lines.encode()).hexdigest()


async def _tell_progress(folder: Path, what: str, tell: Tell) -> None:
    while True:
        found = _json(folder / fetch.PROGRESS)
        tell(what, int(found.get("done_bytes", 0)), int(found.get("total_bytes", 0)))
        await asyncio.sleep(_LOOK_S)


def _json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _environment(folder: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name in _PASSED or name.startswith("PIP_")}
    return {
        **kept, "PATH": os.environ.get("PATH", os.defpath), "HOME": str(folder), "LANG": "C.UTF-8",
        "PYTHONPATH": str(Path(poolhouse_agent.__file__).parents[1]),
    }  # fmt: skip
