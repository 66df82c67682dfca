"""A network namespace behind a real link that delays and loses packets.

The link is two TUN devices and a thread that carries packets between them, so that it needs root and `/dev/net/tun`
but no traffic shaping in the kernel.
"""

import fcntl
import heapq
import os
import random
import selectors
import struct
import subprocess
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self

_TUN = Path("/dev/net/tun")
_SET_INTERFACE = 0x400454CA
_TUN_WITHOUT_HEADER = 0x0001 | 0x1000
_MTU = 1500


def missing() -> str:
    """Say what this machine lacks for it; empty where it lacks nothing."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not _TUN.exists():
        return "the kernel has no /dev/net/tun"
    tried = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True, check=False)
    return "" if tried.returncode == 0 else f"ip netns: {tried.stderr.strip()}"


class LossyNetwork:
    """A namespace `name`; from there, this machine is `here`. `carried` and `lost` count packets."""

    def __init__(self, *, delay_s: float, loss: float, seed: int = 1) -> None:
        number = os.getpid() % 4096
        self.name = f"ph{number}"
        self.here, self._there = (
            f"10.{77 + number // 256}.{number % 256}.1",
            f"10.{77 + number // 256}.{number % 256}.2",
        )
        self.carried = self.lost = 0
        self._delay_s = delay_s
        self._loss = loss
        self._chance = random.Random(seed)  # noqa: S311  luck that can be repeated, not a secret
        self._is_over = threading.Event()
        self._fds: list[int] = []
        self._thread = threading.Thread(target=self._carry, daemon=True)

    def __enter__(self) -> Self:
        _ip("netns", "add", self.name)
        try:
            near, far = f"{self.name}a", f"{self.name}b"
            self._fds = [_interface(near), _interface(far)]
            _ip("link", "set", far, "netns", self.name)
            _ip("addr", "add", f"{self.here}/30", "dev", near)
            _ip("link", "set", near, "up")
            for command in (["addr", "add", f"{self._there}/30", "dev", far], ["link", "set", far, "up"]):
                _ip("-n", self.name, *command)
            _ip("-n", self.name, "link", "set", "lo", "up")
            self._thread.start()
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join(5)
        self._close()

    def inside(self, argv: list[str]) -> list[str]:
        """The command that runs `argv` in the namespace."""
        return ["ip", "netns", "exec", self.name, *argv]

    def _close(self) -> None:
        for handle in self._fds:
            os.close(handle)
        _ip("netns", "del", self.name)

    def _carry(self) -> None:
        selector, (near, far) = selectors.DefaultSelector(), self._fds
        for handle in self._fds:
            selector.register(handle, selectors.EVENT_READ)
        under_way: list[tuple[float, int, int, bytes]] = []
        while not self._is_over.is_set():
            wait_s = under_way[0][0] - time.monotonic() if under_way else 0.1
            for key, _ in selector.select(max(0.0, min(wait_s, 0.1))):
                packet = os.read(key.fd, _MTU + 64)
                self.carried += 1
                if self._chance.random() < self._loss:
                    self.lost += 1
                    continue
                due_at = time.monotonic() + self._delay_s
                heapq.heappush(under_way, (due_at, self.carried, far if key.fd == near else near, packet))
            while under_way and under_way[0][0] <= time.monotonic():
                _, _, handle, packet = heapq.heappop(under_way)
                os.write(handle, packet)


def _interface(name: str) -> int:
    handle = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(handle, _SET_INTERFACE, struct.pack("16sH", name.encode(), _TUN_WITHOUT_HEADER))
    return handle


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)
