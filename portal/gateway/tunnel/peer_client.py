"""Links to other gateway processes, made on first use: a node's tunnel may be theirs, the request is ours.

On one host by Unix socket, between hosts by TLS.
"""

import asyncio
import logging
import time
from pathlib import Path
from typing import Final

from portal.gateway.tunnel import frames, peer_tls, peer_wire
from portal.gateway.tunnel.peer_tls import PeerAddress, PeerTls
from portal.gateway.tunnel.streams import Mux, NodeStream, TunnelLost

log = logging.getLogger(__name__)

_RETRY_AFTER_S: Final = 0.5


class _Link:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.mux = Mux(self._write)
        self._reader = reader
        self._writer = writer
        self._task = asyncio.create_task(self._read())

    async def _write(self, message: bytes) -> None:
        try:
            await peer_wire.write_frame(self._writer, message)
        except TunnelLost:
            self._lose()
            raise

    async def _read(self) -> None:
        try:
            while True:
                kind, stream, payload = await peer_wire.read_frame(self._reader)
                self.mux.receive(kind, stream, payload)
        except (asyncio.IncompleteReadError, OSError, frames.ProtocolError) as error:
            log.info("peer.link_ended", extra={"reason": type(error).__name__})
        finally:
            self._lose()

    def _lose(self) -> None:
        self.mux.lose()
        self._writer.close()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


class PeerLinks:
    """One authenticated link to each peer that is needed."""

    def __init__(self, *, key: bytes, tls: PeerTls | None = None) -> None:
        self._key = key
        self._tls = tls
        self._context = tls.for_client() if tls is not None else None
        self._links: dict[str, _Link] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._down_until: dict[str, float] = {}

    def is_usable(self, peer: str) -> bool:
        """Return whether the peer answers, or has not been tried lately."""
        if self._tls is None and peer.startswith(peer_tls.SCHEME):
            return False  # it lives on another host, and this process was given no certificate
        return self._down_until.get(peer, 0.0) <= time.monotonic()

    async def open(self, peer: str, node_id: int, payload: bytes, *, body_bytes: int) -> NodeStream:
        """Send a request, or the first piece of it, by the peer's tunnel to the node. Raises TunnelLost."""
        link = self._links.get(peer)
        if link is None or link.mux.is_lost:
            link = await self._connect(peer)
        return await link.mux.open(peer_wire.ERRAND.pack(node_id, body_bytes) + payload)

    async def stop(self) -> None:
        """Close all links."""
        links, self._links = list(self._links.values()), {}
        for link in links:
            await link.stop()

    async def _connect(self, peer: str) -> _Link:
        async with self._locks.setdefault(peer, asyncio.Lock()):
            known = self._links.get(peer)
            if known is not None and not known.mux.is_lost:
                return known
            if not self.is_usable(peer):
                raise TunnelLost("the process that holds the tunnel does not answer")
            try:
                async with asyncio.timeout(peer_wire.HANDSHAKE_TIMEOUT_S):
                    self._links[peer] = await self._dial(peer)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, peer_wire.PeerRefused) as error:
                self._down_until[peer] = time.monotonic() + _RETRY_AFTER_S
                log.warning("peer.unreachable", extra={"peer": Path(peer).name, "reason": type(error).__name__})
                raise TunnelLost("the process that holds the tunnel does not answer") from error
            return self._links[peer]

    async def _dial(self, peer: str) -> _Link:
        reader, writer = await self._reach(peer_tls.parse(peer))
        link: _Link | None = None
        try:
            await peer_wire.greet_as_client(reader, writer, self._key)
            link = _Link(reader, writer)
        finally:  # a cancellation, too, must close the connection
            if link is None:
                writer.close()
        return link

    async def _reach(self, peer: PeerAddress) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if peer.host is None or (self._tls is not None and peer.host == self._tls.host):
            return await asyncio.open_unix_connection(peer.path)
        return await asyncio.open_connection(peer.host, peer.port, ssl=self._context)
