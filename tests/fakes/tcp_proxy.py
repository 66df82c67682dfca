"""A TCP proxy that a test can cut and heal: what stands behind it is gone for whoever comes through it alone."""

import contextlib
import select
import socket
import threading
from types import TracebackType
from typing import Self

_CHUNK = 65_536


class TcpProxy:
    """Forwards connections on a port of its own to `host:port`."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port = self._listener.getsockname()[1]
        self._is_cut = False
        self._is_frozen = threading.Event()
        self._fatal: bytes | None = None
        self._pairs: set[tuple[socket.socket, socket.socket]] = set()
        self._lock = threading.Lock()
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cut()
        # A listener that another thread accepts on wakes up only when it is shut down first.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(5)

    def cut(self) -> None:
        """Break all connections and refuse new ones."""
        self._is_cut = True
        with self._lock:
            for pair in self._pairs:
                _break(*pair)

    def freeze(self) -> None:
        """Let connections hang: nothing is forwarded, nothing is closed."""
        self._is_frozen.set()

    def lose_answer_to(self, words: bytes) -> None:
        """Let the next request with these words through, and break its connection instead of answering it."""
        self._fatal = words

    @property
    def has_lost_answer(self) -> bool:
        """Whether that has happened."""
        return self._fatal is None

    def heal(self) -> None:
        """Work again."""
        self._is_cut = False
        self._is_frozen.clear()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._is_cut:
                client.close()
                continue
            server = socket.create_connection(self._target)
            with self._lock:
                self._pairs.add((client, server))
            threading.Thread(target=self._forward, args=(client, server), daemon=True).start()

    def _forward(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        with contextlib.suppress(OSError, ValueError):
            while True:
                ready, _, _ = select.select(list(other), [], [], 0.05)
                if self._is_frozen.is_set():
                    continue
                for end in ready:
                    chunk = end.recv(_CHUNK)
                    if not chunk:
                        raise OSError("closed")
                    other[end].sendall(chunk)
                    if end is client and self._fatal is not None and self._fatal in chunk:
                        self._fatal = None
                        server.recv(_CHUNK)
                        raise OSError("the answer is lost")
        _break(client, server)
        client.close()
        server.close()
        with self._lock:
            self._pairs.discard((client, server))


def _break(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
