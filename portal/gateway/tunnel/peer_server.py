"""Lends this process's tunnels to the pool's other gateway processes; the admitting process meters."""

import asyncio
import logging
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

import orjson

from portal.gateway.tunnel import frames, peer_wire
from portal.gateway.tunnel.connection import BodyTooLarge, NodeTunnel
from portal.gateway.tunnel.peer_tls import PeerTls
from portal.gateway.tunnel.streams import Interrupted, NodeSilent, NodeStream, TunnelLost

log = logging.getLogger(__name__)

_LAST: Final = frozenset({frames.END, frames.FAIL})
# The admitting process has the real deadlines; this one only ends a stream whose peer forgot it.
_FORGOTTEN_S: Final = 3_600.0
_TUNNEL_GONE: Final = orjson.dumps({"code": "tunnel_lost", "message": "the node's tunnel is not here"})
_BODY_REFUSED: Final = orjson.dumps({"code": "body_too_large", "message": "the node's agent does not take it"})
_NO_ROOM: Final = orjson.dumps({"code": "too_many_streams", "message": "too many large requests are on their way"})
# Large bodies are gathered here before their node is asked, so that a node that reads slowly holds up nobody else.
_MAX_GATHERED_BYTES: Final = 64 * 1_048_576


class Tunnels(Protocol):
    """Finds a usable tunnel of this process."""

    def local(self, node_id: int) -> NodeTunnel | None:
        """Return it, or None."""


class PeerServer:
    """Listens on a Unix socket that only this user may open, and for other hosts behind TLS."""

    def __init__(self, *, path: str, key: bytes, tunnels: Tunnels, tls: PeerTls | None = None) -> None:
        self._path = Path(path)
        self._tls = tls
        self._key = key
        self._tunnels = tunnels
        self._servers: list[asyncio.Server] = []
        self._guests: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Bind the sockets; a file that a dead process left is replaced. Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path.unlink(missing_ok=True)
        self._servers.append(await asyncio.start_unix_server(self._welcome, path=str(self._path)))
        self._path.chmod(0o600)
        if self._tls is not None:
            context = self._tls.for_server()
            self._servers.append(
                await asyncio.start_server(
                    self._welcome,
                    self._tls.host,
                    self._tls.port,
                    ssl=context,
                    ssl_handshake_timeout=peer_wire.HANDSHAKE_TIMEOUT_S,
                )
            )

    async def stop(self) -> None:
        """Close the sockets and every peer's connection."""
        for server in self._servers:
            server.close()
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


class _Errand:
    """A request on its way to a node, gathered until its body is whole."""

    __slots__ = ("body_bytes", "left", "node_id", "payload", "pieces")

    def __init__(self, payload: bytes) -> None:
        self.node_id, self.body_bytes = peer_wire.ERRAND.unpack_from(payload)
        self.payload = payload[peer_wire.ERRAND.size :]
        self.pieces: list[bytes] = []
        self.left = max(0, self.body_bytes - frames.BODY_PIECE_BYTES) if self.is_large else 0

    @property
    def is_large(self) -> bool:
        """Whether BODY frames follow."""
        return bool(self.body_bytes > frames.PLAIN_BODY_BYTES)

    def add(self, piece: bytes) -> None:
        """Take a BODY frame. Raises ProtocolError."""
        self.pieces.append(piece)
        self.left -= len(piece)
        if self.left < 0:
            raise frames.ProtocolError("a peer sent more than the body it announced")


class _Guest:
    """One peer's connection: its streams, each copied from a tunnel by a task."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, tunnels: Tunnels) -> None:
        self._reader = reader
        self._writer = writer
        self._tunnels = tunnels
        self._streams: dict[int, NodeStream] = {}
        self._gathering: dict[int, _Errand] = {}
        self._gathered_bytes = 0
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
            await self._begin(stream_id, _Errand(payload))
            return
        if kind == frames.BODY:
            self._gather(stream_id, payload)
            return
        stream = self._streams.get(stream_id)
        if stream is None:
            if kind == frames.CANCEL:
                await self._cancel_early(stream_id)
            return  # it ended while the peer wrote
        if kind == frames.CANCEL:
            stream.interrupt()
        elif kind == frames.WINDOW:
            with suppress(TunnelLost):  # the copying task sees the loss and reports it
                await stream.grant(frames.unpack_window(payload))
        else:
            raise frames.ProtocolError(f"a peer sent {kind:#04x}")

    async def _begin(self, stream_id: int, errand: _Errand) -> None:
        if not errand.left:
            self._start(stream_id, errand)
        elif self._gathered_bytes + errand.body_bytes > _MAX_GATHERED_BYTES:
            await self._write(frames.FAIL, stream_id, _NO_ROOM)
        else:
            self._gathered_bytes += errand.body_bytes
            self._gathering[stream_id] = errand

    def _gather(self, stream_id: int, piece: bytes) -> None:
        errand = self._gathering.get(stream_id)
        if errand is None:
            return  # it was refused, or canceled, while the peer wrote
        errand.add(piece)
        if not errand.left:
            del self._gathering[stream_id]
            self._start(stream_id, errand)

    def _start(self, stream_id: int, errand: _Errand) -> None:
        self._opening.add(stream_id)
        task = asyncio.create_task(self._copy(stream_id, errand))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _cancel_early(self, stream_id: int) -> None:
        errand = self._gathering.pop(stream_id, None)
        if errand is not None:
            self._gathered_bytes -= errand.body_bytes
            await self._write(frames.END, stream_id, b"{}")
        elif stream_id in self._opening:
            self._canceled.add(stream_id)

    async def _copy(self, stream_id: int, errand: _Errand) -> None:
        stream = None
        try:
            stream = self._streams[stream_id] = await self._open(errand)
            self._opening.discard(stream_id)
            if stream_id in self._canceled:
                stream.interrupt()
            await stream.send_body(errand.pieces)
            self._let_go(errand)
            kind = 0
            while kind not in _LAST:
                kind, piece = await stream.next_uncredited(_FORGOTTEN_S)
                await self._write(kind, stream_id, piece)
        except BodyTooLarge:
            await self._write(frames.FAIL, stream_id, _BODY_REFUSED)
        except (TunnelLost, NodeSilent):
            await self._write(frames.FAIL, stream_id, _TUNNEL_GONE)
        except Interrupted:
            await self._write(frames.END, stream_id, b"{}")
        finally:
            self._streams.pop(stream_id, None)
            self._opening.discard(stream_id)
            self._canceled.discard(stream_id)
            self._let_go(errand)
            if stream is not None:
                with suppress(TunnelLost):  # nobody is left to be told to cancel
                    await stream.close()

    def _let_go(self, errand: _Errand) -> None:
        """Forget a body that has been sent on, or never will be. Safe to call twice."""
        if errand.pieces:
            self._gathered_bytes -= errand.body_bytes
            errand.pieces = []

    async def _open(self, errand: _Errand) -> NodeStream:
        tunnel = self._tunnels.local(errand.node_id)
        if tunnel is None:
            raise TunnelLost("the tunnel is not here any more")
        return await tunnel.open(errand.payload, body_bytes=errand.body_bytes)

    async def _write(self, kind: int, stream_id: int, payload: bytes) -> None:
        with suppress(TunnelLost):  # the reading task sees the closed socket and ends everything
            await peer_wire.write_frame(self._writer, frames.pack(kind, stream_id, payload))
