"""Child processes that cannot outlive their parent, and files and ports for them."""

import ctypes
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def free_port() -> int:
    """Return a TCP port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class PortTaken(RuntimeError):
    """Another program listens on the port."""


def require_free(port: int, *, hint: str) -> None:
    """Raise PortTaken where the port of 127.0.0.1 cannot be listened on."""
    if not is_free(port):
        raise PortTaken(f"port {port} is taken: {hint}")


def is_free(port: int) -> bool:
    """Say whether the TCP port of 127.0.0.1 can be listened on."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def start(
    argv: Sequence[str],
    *,
    log: Path,
    environ: Mapping[str, str] | None = None,
    death_signal: int = signal.SIGTERM,
) -> subprocess.Popen[bytes]:
    """Start a child in its own process group that gets `death_signal` when this process dies; output goes to `log`."""
    parent = os.getpid()

    def tie_to_parent() -> None:
        die_with(parent, death_signal)

    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("the kernel ties a child to the thread that starts it: start children from the main thread")
    with log.open("ab") as output:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environ) if environ is not None else None,
            start_new_session=True,
            preexec_fn=tie_to_parent,  # noqa: PLW1509  only prctl and getppid run between fork and exec
        )


def die_with(parent: int, death_signal: int = signal.SIGTERM) -> None:
    """Let the kernel send this process `death_signal` when `parent` dies; exit at once where that has happened."""
    _libc.prctl(_PR_SET_PDEATHSIG, death_signal)
    if os.getppid() != parent:
        os._exit(1)


def stop(process: subprocess.Popen[bytes], *, first: int = signal.SIGTERM, timeout_s: float = 10.0) -> int:
    """Ask the process to end, wait, then kill its whole group; return its exit status."""
    if process.poll() is None:
        process.send_signal(first)
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()
