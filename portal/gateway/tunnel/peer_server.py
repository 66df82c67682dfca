"""Lends this process's tunnels to the other gateway processes of the host; the admitting process meters."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import orjson

from portal.gateway.tunnel import frames, peer_wire
from portal.gateway.tunnel.connection import NodeTunnel
from portal.gateway.tunnel.streams import Interrupted, NodeSilent, NodeStream, TunnelLost

log = logging.getLogger(__name__)

_LAST: Final = frozenset({frames.END, frames.FAIL})
# The admitting process has the real deadlines; this one only ends a stream whose peer forgot it.
_FORGOTTEN_S: Final = 3_600.0
_TUNNEL_GONE: Final = orjson.dumps({"code": "tunnel_lost", "message": "the node's tunnel is not here"})


class Tunnels(Protocol):
    """Finds a usable tunnel of this process."""

    def local(self, node_id: int) -> NodeTunnel | None:
        """Return it, or None."""


class PeerServer:
    """Listens on a Unix socket that only this user may open."""

    def __init__(self, *, path: str, key: bytes, tunnels: Tunnels) -> None:
        self._path = Path(path)
        self._key = key
        self._tunnels = tunnels
        self._server: asyncio.Server | None = None
        self._guests: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Bind the socket; a file that a dead process left is replaced."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path.unlink(missing_ok=True)
        self._server = await asyncio.start_unix_server(self._welcome, path=str(self._path))
        self._path.chmod(0o600)

    async def stop(self) -> None:
        """Close the socket and every peer's connection."""
        if self._server is not None:
            self._server.close()
        for guest in list(self._guests):
            guest.cancel()
        await asyncio.gather(*self._guests, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._guests.add(task)
            task.add_done_callback(self._guests.discard)
        try:
            async with asyncio.timeout(peer_wire.HANDSHAKE_TIMEOUT_S):
                await peer_wire.greet_as_server(reader, writer, self._key)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, peer_wire.PeerRefused) as error:
            log.warning("peer.refused", extra={"reason": type(error).__name__})
            writer.close()
            return
        await _Guest(reader, writer, self._tunnels).serve()


class _Guest:
    """One peer's connection: its streams, each copied from a tunnel by a task."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tunnels: Tunnels) -> None:
        self._reader = reader
        self._writer = writer
        self._tunnels = tunnels
        self._streams: dict[int, NodeStream] = {}
        self._opening: set[int] = set()
        self._canceled: set[int] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        try:
            while True:
                await self._take(*await peer_wire.read_frame(self._reader))
        except (asyncio.IncompleteReadError, OSError):
            log.info("peer.left")
        except (frames.ProtocolError, TunnelLost) as error:
            log.warning("peer.protocol_error", extra={"reason": str(error)})
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self._writer.close()

    async def _take(self, kind: int, stream_id: int, payload: bytes) -> None:
        if kind == frames.REQUEST:
            self._opening.add(stream_id)
            task = asyncio.create_task(self._copy(stream_id, payload))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            if kind == frames.CANCEL and stream_id in self._opening:
                self._canceled.add(stream_id)
            return  # it ended while the peer wrote
        if kind == frames.CANCEL:
            stream.interrupt()
        elif kind == frames.WINDOW:
            with suppress(TunnelLost):  # the copying task sees the loss and reports it
                await stream.grant(frames.unpack_window(payload))
        else:
            raise frames.ProtocolError(f"a peer sent {kind:#04x}")

    async def _copy(self, stream_id: int, payload: bytes) -> None:
        (node_id,) = peer_wire.NODE.unpack_from(payload)
        stream = None
        try:
            stream = self._streams[stream_id] = await self._open(node_id, payload[peer_wire.NODE.size :])
            self._opening.discard(stream_id)
            if stream_id in self._canceled:
                stream.interrupt()
            kind = 0
            while kind not in _LAST:
                kind, piece = await stream.next_uncredited(_FORGOTTEN_S)
                await self._write(kind, stream_id, piece)
        except (TunnelLost, NodeSilent):
            await self._write(frames.FAIL, stream_id, _TUNNEL_GONE)
        except Interrupted:
            await self._write(frames.END, stream_id, b"{}")
        finally:
            self._streams.pop(stream_id, None)
            self._opening.discard(stream_id)
            self._canceled.discard(stream_id)
            if stream is not None:
                with suppress(TunnelLost):  # nobody is left to be told to cancel
                    await stream.close()

    async def _open(self, node_id: int, payload: bytes) -> NodeStream:
        tunnel = self._tunnels.local(node_id)
        if tunnel is None:
            raise TunnelLost("the tunnel is not here any more")
        return await tunnel.open(payload)

    async def _write(self, kind: int, stream_id: int, payload: bytes) -> None:
        with suppress(TunnelLost):  # the reading task sees the closed socket and ends everything
            await peer_wire.write_frame(self._writer, frames.pack(kind, stream_id, payload))
