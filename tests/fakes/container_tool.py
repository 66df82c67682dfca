"""A program called `docker` for tests without one, and the daemon behind it: containers outlive the command.

A container is a process of the daemon's: it has nothing of the caller's session or environment. A killed `docker run`
leaves it running, and only `docker rm --force` ends it then.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

SCRIPT = """\
#!{python}
import json, os, pathlib, signal, socket, sys
folder = pathlib.Path({folder!r})
words = sys.argv[1:]
with (folder / "calls.jsonl").open("a") as calls:
    calls.write(json.dumps({{"argv": words, "environ": dict(os.environ)}}) + "\\n")
if words[:2] == ["image", "inspect"]:
    sys.exit(0 if words[-1] in (folder / "images").read_text().split() else "Error: No such image: " + words[-1])
if words[:2] == ["network", "inspect"]:
    sys.exit(0 if (folder / "network").exists() else 1)
if words[:2] == ["network", "create"]:
    (folder / "network").touch()
    sys.exit(0)

def ask(value):
    door = socket.socket(socket.AF_UNIX)
    door.connect({door!r})
    door.sendall(json.dumps(value).encode() + b"\\n")
    return json.loads(door.makefile().readline())

if words[:2] == ["rm", "--force"]:
    ask({{"end": words[2], "signal": 9}})
    sys.exit(0)
assert words[0] == "run", words
name = words[words.index("--name") + 1]
image = next(word for word in words if "@sha256:" in word)
inside = {{"PATH": os.environ["PATH"]}}
for at, word in enumerate(words):
    if word == "--env":
        key, has_value, value = words[at + 1].partition("=")
        inside[key] = value if has_value else os.environ[key]
argv = [str(folder / words[words.index("--entrypoint") + 1]), *words[words.index(image) + 1:]]
signal.signal(signal.SIGTERM, lambda *_: ask({{"end": name, "signal": 15}}))
sys.exit(ask({{"run": name, "argv": argv, "environ": inside}})["status"])
"""


class Daemon:
    """Runs containers; `containers` are those that have not ended."""

    def __init__(self, folder: Path, door: Path, *images: str) -> None:
        self.folder = folder
        self.containers: dict[str, subprocess.Popen[bytes]] = {}
        self.tool = folder / "docker"
        self.tool.write_text(SCRIPT.format(python=sys.executable, folder=str(folder), door=str(door)), encoding="utf-8")
        self.tool.chmod(0o700)
        (folder / "images").write_text("\n".join(images), encoding="ascii")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(door))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    @property
    def calls(self) -> list[dict[str, Any]]:
        """How the program was called."""
        lines = (self.folder / "calls.jsonl").read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines]

    def close(self) -> None:
        """Take no more calls, and end what runs."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for name in list(self.containers):
            self._end(name, signal.SIGKILL)

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile() as lines:
            asked = json.loads(lines.readline())
            status = self._run(asked) if "run" in asked else self._end(asked["end"], asked["signal"])
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps({"status": status}).encode() + b"\n")

    def _run(self, asked: dict[str, Any]) -> int:
        with (self.folder / "container.log").open("ab") as log:
            child = subprocess.Popen(
                asked["argv"], env=asked["environ"], start_new_session=True, stdout=log, stderr=log
            )
        self.containers[asked["run"]] = child
        status = child.wait()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # a container ends with its first process
        self.containers.pop(asked["run"], None)
        return status if status >= 0 else 128 - status

    def _end(self, name: str, number: int) -> int:
        child = self.containers.get(name)
        if child is not None:
            child.send_signal(number)
        return 0
