"""Keeps a tunnel to the pool: connects, serves, and connects again."""

import asyncio
import logging
import socket as sockets
import ssl

import aiohttp

from poolhouse_agent import addresses
from poolhouse_agent.backoff import Backoff
from poolhouse_agent.errors import ConfigError, PortalError
from poolhouse_agent.protocol import frames
from poolhouse_agent.protocol.messages import Session
from poolhouse_agent.receipts.claims import Note
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.tunnel.connection import Connection, Ending, Serving
from poolhouse_agent.tunnel.terms import USUAL, Terms

log = logging.getLogger(__name__)

_NO_SESSION_S = 0.2
_STEADY_S = 10.0
_MAX_ENDING = 4
_UNSENT_BYTES = 64 * 1024
_UNAUTHORIZED = 401
_CONFLICT = 409


class TunnelKeeper:
    """Runs for ever; `connected` says whether a tunnel is up."""

    def __init__(
        self,
        sessions: SessionKeeper,
        *,
        server: str,
        serving: Serving,
        net: aiohttp.ClientSession,
        engines: aiohttp.ClientSession,
        terms: Terms = USUAL,
    ) -> None:
        self._sessions = sessions
        self._server = server
        self._serving = serving
        self._net = net
        self._engines = engines
        self._terms = terms
        self._backoff = Backoff(first_s=self._terms.first_delay_s, longest_s=self._terms.longest_delay_s)
        self._tls = ssl.create_default_context() if server.startswith("https:") else True
        self._ending: set[asyncio.Task[Ending]] = set()
        self._note: Note | None = None
        self.is_connected = False

    def note_with(self, note: Note) -> None:
        """Tell `note` of every attempt that was served, so that there can be a receipt; without it nobody keeps any."""
        self._note = note

    async def run(self) -> None:
        """Serve the pool until cancelled."""
        try:
            while True:
                delay = await self._once()
                await asyncio.sleep(delay)
        finally:
            await self._cut(self._ending)

    async def _once(self) -> float:
        """Hold one connection from start to end; return how long to wait before the next."""
        session = self._sessions.current
        if session is None or self._sessions.is_refused:
            return _NO_SESSION_S
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            ending = await self._connect_and_serve(session)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            log.warning("tunnel.failed", extra={"code": "tunnel_lost", "detail": f"{type(error).__name__}: {error}"})
            ending = Ending.LOST
        except (ConfigError, PortalError) as error:
            log.warning("tunnel.refused", extra={"code": error.code, "detail": error.detail, "fix": error.fix})
            ending = Ending.PROTOCOL
        if loop.time() - began > _STEADY_S:
            self._backoff.reset()
        return self._after(ending, session)

    async def _connect_and_serve(self, session: Session) -> Ending:
        url = addresses.tunnel_url(session.tunnel_url, server=self._server)
        try:
            async with asyncio.timeout(self._terms.connect_s):
                socket = await self._net.ws_connect(
                    url,
                    headers={"authorization": f"Bearer {session.token}"},
                    heartbeat=self._terms.ping_s,
                    max_msg_size=frames.MAX_MESSAGE_BYTES,
                    compress=0,
                    ssl=self._tls,
                )
        except aiohttp.WSServerHandshakeError as error:
            return self._refused(error.status)
        _keep_queue_short(socket)
        log.info("tunnel.connected", extra={"generation": session.generation})
        self.is_connected = True
        try:
            connection = Connection(
                socket, serving=self._serving, http=self._engines, terms=self._terms, note=self._note
            )
            return await self._serve(connection)
        finally:
            self.is_connected = False

    async def _serve(self, connection: Connection) -> Ending:
        """Serve until the end, or until the gateway goes away: what still runs then ends beside the next connection."""
        serving = asyncio.create_task(connection.serve())
        leaving = asyncio.create_task(connection.leaving.wait())
        try:
            await asyncio.wait({serving, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done() or len(self._ending) >= _MAX_ENDING:
                return await serving
        except asyncio.CancelledError:
            await self._cut({serving})
            raise
        finally:
            leaving.cancel()
        self._ending.add(serving)
        serving.add_done_callback(self._ended)
        return Ending.GOAWAY

    def _ended(self, serving: asyncio.Task[Ending]) -> None:
        self._ending.discard(serving)
        if not serving.cancelled() and (error := serving.exception()) is not None:
            log.warning("tunnel.failed", extra={"code": "tunnel_lost", "detail": f"{type(error).__name__}: {error}"})

    async def _cut(self, tasks: set[asyncio.Task[Ending]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _refused(self, status: int) -> Ending:
        log.warning("tunnel.refused", extra={"code": "tunnel_lost", "detail": f"status {status}"})
        if status == _UNAUTHORIZED:
            return Ending.SESSION_INVALID
        return Ending.SUPERSEDED if status == _CONFLICT else Ending.LOST

    def _after(self, ending: Ending, session: Session) -> float:
        """Act on how the connection ended; return the delay before the next."""
        log.info("tunnel.closed", extra={"ending": ending.value})
        newer = self._sessions.current
        has_newer = newer is not None and newer.generation > session.generation
        if ending in {Ending.GOAWAY, Ending.RESTART} or has_newer:
            return self._terms.draw_at_once_s()
        if ending is Ending.SESSION_INVALID:
            self._sessions.drop()
        elif ending is Ending.SUPERSEDED:
            self._sessions.superseded()
        return self._backoff.next_s()


def _keep_queue_short(socket: aiohttp.ClientWebSocketResponse) -> None:
    """Let the kernel hold little that is not on the wire yet: a first token must not wait behind another's long answer.

    What does not fit waits in the streams, which take turns.
    """
    raw = socket.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(sockets.IPPROTO_TCP, sockets.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
