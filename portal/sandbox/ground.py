"""The demo's folder: its lock, its secrets and ports, and the record of what runs."""

import base64
import fcntl
import json
import os
import secrets
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any

from portal.sandbox import processes

PORTS = ("gateway", "postgres", "stripe", "valkey")


class AlreadyRunning(RuntimeError):
    """Another demo holds this folder."""


class Ground:
    """A folder that belongs to one running demo at a time; what it holds lasts from run to run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._lock: IO[str] | None = None

    def claim(self) -> None:
        """Take the folder for this process and end what a killed run left behind. Raises AlreadyRunning."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = (self.folder / "lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._lock.close()
            pid = self.read("run").get("supervisor", "unknown")
            raise AlreadyRunning(f"a demo already runs in {self.folder} (process {pid}): stop it first") from error
        for pid, started in self.read("run").get("processes", {}).items():
            _end_leftover(int(pid), float(started))
        self.write("run", {})

    def is_claimed(self) -> bool:
        """Say whether a running process holds the folder."""
        file = self.folder / "lock"
        if not file.exists():
            return False
        with file.open("a+", encoding="utf-8") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def release(self) -> None:
        """Give the folder back."""
        self.write("run", {})
        if self._lock is not None:
            self._lock.close()

    def read(self, name: str) -> dict[str, Any]:
        """Return what was written under the name, or an empty dictionary."""
        file = self.folder / f"{name}.json"
        if not file.exists():
            return {}
        content: dict[str, Any] = json.loads(file.read_text(encoding="utf-8") or "{}")
        return content

    def write(self, name: str, content: Mapping[str, Any]) -> None:
        """Write the content for this user's eyes only, whole or not at all."""
        file = self.folder / f"{name}.json"
        draft = self.folder / f".{name}.json.new"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as output:
            json.dump(content, output, indent=1)
        draft.replace(file)

    def record_running(self, supervisor: int, pids: Mapping[str, int], **more: Any) -> None:
        """Note the processes with their start times, so that a later run can tell ours from a stranger's."""
        started = {str(pid): _started_at(pid) for pid in pids.values()}
        self.write("run", {"supervisor": supervisor, "processes": started, "names": dict(pids), **more})

    def secrets(self) -> dict[str, str]:
        """Return the demo's secrets, made at the first run."""
        known = self.read("secrets")
        if not known:
            known = _new_secrets()
            self.write("secrets", known)
        return known

    def ports(self) -> dict[str, int]:
        """Return the ports of the last run where they are still free, else new ones."""
        known = self.read("ports")
        chosen: dict[str, int] = {}
        for name in PORTS:
            port = known.get(name, 0)
            while port in chosen.values() or not port or not processes.is_free(port):
                port = processes.free_port()
            chosen[name] = port
        self.write("ports", chosen)
        return chosen


def _new_secrets() -> dict[str, str]:
    return {
        "SECRET_KEY": secrets.token_urlsafe(50),
        "RECEIPT_SIGNING_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
        "METRICS_TOKEN": secrets.token_urlsafe(24),
        "STRIPE_API_KEY": f"sk_test_{secrets.token_hex(16)}",
        "STRIPE_WEBHOOK_SECRET": f"whsec_{secrets.token_hex(16)}",
        "STRIPE_CONNECT_WEBHOOK_SECRET": f"whsec_{secrets.token_hex(16)}",
        "STRIPE_EVENTS_SECRET": f"whsec_{secrets.token_hex(16)}",
    }


def _started_at(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return float(fields[19])


def _end_leftover(pid: int, started: float) -> None:
    if started and _started_at(pid) == started:
        try:
            os.killpg(pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return
