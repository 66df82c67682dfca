"""Releases that can be installed in a second, a pool that serves them, and something that restarts the agent."""

import base64
import hashlib
import io
import json
import os
import subprocess
import threading
import zipfile
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"the operator's offline key").digest())
FORGER = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"who took the portal over").digest())
PUBLIC_KEY = base64.b64encode(KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()
REQUIREMENTS = b"# nothing is needed\n"

# The program of a release: as `run` it says in status.json how it is; a file of the state folder decides that.
PROGRAM = """
import datetime, json, pathlib, sys, time
VERSION = "{version}"
def main():
    if "--version" in sys.argv:
        print("poolhouse-agent", VERSION)
        return
    state = pathlib.Path(sys.argv[sys.argv.index("--state") + 1])
    how = state / ("is-" + VERSION)
    how = how.read_text() if how.exists() else "well"
    if "doctor" in sys.argv:
        sys.exit(how == "ailing")
    if "join" in sys.argv:
        state.mkdir(exist_ok=True)
        (state / "joined").write_text(sys.stdin.readline() + " ".join(sys.argv))
        (state / "node.json").write_text("{{}}")
        return
    if how == "crashing":
        sys.exit(3)
    value = {{"agent_version": VERSION, "generation": 1, "tunnel": "connected" if how == "well" else "disconnected"}}
    while True:
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        new = state / "status.new"
        new.write_text(json.dumps({{**value, "written_at": now}}))
        new.replace(state / "status.json")
        time.sleep(0.05)
"""


def wheel(version: str, *, program: str = PROGRAM) -> bytes:
    """A wheel of one module without dependencies."""
    info = f"poolhouse_agent-{version}.dist-info"
    files = {
        "poolhouse_stand_in.py": program.format(version=version),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: poolhouse-agent\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\npoolhouse-agent = poolhouse_stand_in:main\n",
    }
    record = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(name, text)
    return packed.getvalue()


@dataclass
class Made:
    """A release as files by name."""

    version: str
    wheel: bytes = b""
    requirements: bytes = REQUIREMENTS
    key: Ed25519PrivateKey = KEY
    changes: dict[str, Any] = field(default_factory=dict)

    @property
    def wheel_name(self) -> str:
        return f"poolhouse_agent-{self.version}-py3-none-any.whl"

    @property
    def manifest(self) -> bytes:
        files = {
            "wheel": _described(self.wheel_name, self.wheel),
            "requirements": _described("requirements.txt", self.requirements),
        }
        value = {"format": 1, "version": self.version, "protocol": 1, "files": files, **self.changes}
        return json.dumps(value).encode()

    @property
    def signature(self) -> str:
        return base64.b64encode(self.key.sign(b"poolhouse-release-v1\n" + self.manifest)).decode()

    def described(self) -> dict[str, str]:
        """The digests that an installer checks."""
        return {
            "wheel_sha256": hashlib.sha256(self.wheel).hexdigest(),
            "requirements_sha256": hashlib.sha256(self.requirements).hexdigest(),
        }

    def write(self, folder: Path) -> None:
        """Put the files where a server or an installer finds them."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.wheel_name).write_bytes(self.wheel)
        (folder / "requirements.txt").write_bytes(self.requirements)
        (folder / "manifest.json").write_bytes(self.manifest)
        (folder / "manifest.sig").write_text(self.signature, encoding="ascii")


def _described(name: str, content: bytes) -> dict[str, Any]:
    return {"name": name, "sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}


class Quiet(SimpleHTTPRequestHandler):
    """A file server that counts what was asked for and logs nothing."""

    asked: list[str]

    def __init__(self, *args: Any, asked: list[str], **kwargs: Any) -> None:
        self.asked = asked
        super().__init__(*args, **kwargs)

    def do_GET(self) -> None:
        self.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class Portal:
    """Serves the releases of a folder under the portal's addresses."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.asked: list[str] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder), asked=self.asked))
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def offer(self, release: Made) -> None:
        release.write(self.folder / "agent" / "v1" / "releases" / release.version)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Manager:
    """Restarts the agent that `current` points to, as systemd would."""

    def __init__(self, program: Path, state: Path) -> None:
        self._argv = [str(program), "--state", str(state), "run"]
        self._child: subprocess.Popen[bytes] | None = None
        self.restarts = 0

    def restart(self) -> None:
        self.stop()
        self.restarts += 1
        self._child = subprocess.Popen(self._argv, stderr=subprocess.DEVNULL, env={"PATH": os.defpath})

    def stop(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None
