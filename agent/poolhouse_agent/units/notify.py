"""Tells systemd that the agent is up, what it does, and that it is still alive: the sd_notify protocol, no library."""

import asyncio
import os
import socket
from collections.abc import Callable, Mapping

_MICROSECONDS = 1_000_000
_BEATS_A_PERIOD = 3
_LONGEST_PAUSE_S = 5.0  # so that `systemctl status` is not much behind


class Notifier:
    """Sends to the socket that systemd named; without one it says nothing."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        self._watchdog_s = _watchdog_s(environ)

    @property
    def is_watched(self) -> bool:
        """Whether systemd restarts this process when it falls silent."""
        return bool(self._address) and self._watchdog_s > 0

    def ready(self) -> None:
        """Say that the service is up."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Say that the service goes down."""
        self._send("STOPPING=1")

    async def beat(self, status: Callable[[], str]) -> None:
        """Say for ever that the event loop turns, and what `systemctl status` should show."""
        if not self._address:
            return
        watched_s = self._watchdog_s / _BEATS_A_PERIOD if self.is_watched else _LONGEST_PAUSE_S
        while True:
            self._send(f"WATCHDOG=1\nSTATUS={_one_line(status())}")
            await asyncio.sleep(min(watched_s, _LONGEST_PAUSE_S))

    def _send(self, text: str) -> None:
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
            try:
                channel.sendto(text.encode(), address)
            except OSError:  # systemd is being restarted; the next beat reaches it
                return


def _watchdog_s(environ: Mapping[str, str]) -> float:
    """How long systemd waits for a sign of life; 0 where it does not, or means another process."""
    named = environ.get("WATCHDOG_PID", "")
    if named and named != str(os.getpid()):
        return 0.0
    microseconds = environ.get("WATCHDOG_USEC", "")
    return int(microseconds) / _MICROSECONDS if microseconds.isdigit() else 0.0


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]
