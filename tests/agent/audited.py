"""Runs `poolhouse-agent` and writes down what it does to the machine: `audited.py FILE ARGUMENT…`.

Each line of FILE is `event<TAB>arguments`, of those that are plain values: programs started, files opened, moved or
removed, addresses connected to, libraries loaded. Python tells an audit hook of them before they happen, and a hook
cannot be taken away again.
"""

import os
import sys
from typing import Any

_EVENTS = frozenset({
    "subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork", "pty.spawn", "open",
    "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.chmod", "os.chown", "os.link", "os.symlink", "os.truncate",
    "shutil.rmtree", "socket.connect", "socket.bind", "socket.getaddrinfo", "ctypes.dlopen", "urllib.Request",
})  # fmt: skip


def main() -> None:
    """Listen, then become the agent."""
    out = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def note(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _EVENTS:
            plain = tuple(one for one in arguments if isinstance(one, str | bytes | int | tuple | list | None))
            os.write(out, f"{event}\t{plain!r}\n".encode("utf-8", "replace"))

    from poolhouse_agent import cli

    sys.addaudithook(note)
    sys.exit(cli.main(sys.argv[2:]))


if __name__ == "__main__":
    main()
