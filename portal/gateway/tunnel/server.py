"""The WebSocket endpoint `/agent/v1/tunnel`: from the agent's session token to a tunnel in the hub."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from django.db import DatabaseError

from portal.core import clock
from portal.core.errors import DomainError
from portal.gateway.evidence import EvidenceLog
from portal.gateway.threads import DatabaseThreads
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.connection import NodeTunnel
from portal.gateway.tunnel.hub import TunnelHub
from portal.gateway.tunnel.socket import TUNNEL, BoundedWebSocket
from portal.gateway.tunnel.streams import TunnelLost
from portal.nodes.services import sessions

log = logging.getLogger(__name__)

_HELLO_TIMEOUT_S: Final = 10.0
_PROTOCOL: Final = 1
_MAX_TOKEN_BYTES: Final = 512

Message = dict[str, Any]
AsgiSend = Callable[[Message], Awaitable[None]]
Receive = Callable[[], Awaitable[Message]]


class TunnelServer:
    """Accepts agents and reads their tunnels until they end."""

    def __init__(self, *, hub: TunnelHub, threads: DatabaseThreads, evidence: EvidenceLog) -> None:
        self._hub = hub
        self._threads = threads
        self._evidence = evidence

    async def serve(self, scope: dict[str, Any], receive: Receive, send: AsgiSend) -> None:
        """Serve one WebSocket from its handshake to its end."""
        await receive()  # websocket.connect, always there
        if self._hub.is_draining:
            await _refuse(send, frames.CLOSE_RESTART, "this process restarts")
            return
        socket: BoundedWebSocket = scope["extensions"][TUNNEL]
        try:
            tunnel = await self._authenticate(scope, socket)
        except DomainError as error:
            is_superseded = isinstance(error, sessions.SessionSuperseded)
            code = frames.CLOSE_SUPERSEDED if is_superseded else frames.CLOSE_SESSION_INVALID
            await _refuse(send, code, error.code)
            return
        except (DatabaseError, TimeoutError):
            await _refuse(send, frames.CLOSE_RESTART, "sessions cannot be checked now")
            return
        await send({"type": "websocket.accept"})
        await self._run(tunnel, socket, receive)

    async def _authenticate(self, scope: dict[str, Any], socket: BoundedWebSocket) -> NodeTunnel:
        identity = await self._threads.run(sessions.authenticate, token=_session_token(scope), now=clock.now())
        return NodeTunnel(
            node_id=identity.node_id,
            node_public_id=identity.node_public_id,
            generation=identity.generation,
            line=socket,
        )

    async def _run(self, tunnel: NodeTunnel, socket: BoundedWebSocket, receive: Receive) -> None:
        where = {"node": tunnel.node_public_id, "generation": tunnel.generation}
        try:
            async with asyncio.timeout(_HELLO_TIMEOUT_S):
                await _greet(tunnel, receive)
            if not await self._hub.adopt(tunnel):
                await tunnel.close(frames.CLOSE_SUPERSEDED, "a newer session of this node has begun")
                return
            log.info("tunnel.opened", extra=where)
            await _read(tunnel, socket, receive, self._hub.changed)
        except frames.ProtocolError as error:
            log.warning("tunnel.protocol_error", extra={**where, "reason": str(error)})
            self._evidence.note(node_id=tunnel.node_id, rule=error.rule, detail=str(error))
            await tunnel.close(frames.CLOSE_PROTOCOL_ERROR, str(error)[:100])
        except (TimeoutError, DatabaseError) as error:
            log.warning("tunnel.not_opened", extra={**where, "reason": type(error).__name__})
            await tunnel.close(frames.CLOSE_RESTART, "connect again")
        except TunnelLost as error:
            log.info("tunnel.lost", extra={**where, "reason": str(error)})
        finally:
            await self._drop(tunnel)

    async def _drop(self, tunnel: NodeTunnel) -> None:
        where = {"node": tunnel.node_public_id, "generation": tunnel.generation}
        try:
            await self._hub.drop(tunnel)
        except (TimeoutError, DatabaseError) as error:
            log.warning("tunnel.release_failed", extra={**where, "reason": type(error).__name__})
        log.info("tunnel.closed", extra=where)


async def _greet(tunnel: NodeTunnel, receive: Receive) -> None:
    kind, stream, payload = frames.unpack(await _message(receive))
    if kind != frames.HELLO or stream != 0:
        raise frames.ProtocolError("the first message is HELLO on stream 0")
    hello = frames.parse_object(payload)
    if hello.get("protocol") != _PROTOCOL:
        raise frames.ProtocolError(f"this gateway speaks protocol {_PROTOCOL}")
    tunnel.greet(hello)


async def _read(tunnel: NodeTunnel, socket: BoundedWebSocket, receive: Receive, changed: Callable[[int], None]) -> None:
    def take(message: bytes) -> None:
        if tunnel.take(message):
            changed(tunnel.node_id)

    socket.deliver(take)
    # No deadline of its own: the server's WebSocket pings end a connection that has gone silent.
    while True:
        await _message(receive)


async def _message(receive: Receive) -> bytes:
    message = await receive()
    if message["type"] == "websocket.disconnect":
        if "rule" in message:
            raise frames.ProtocolError(str(message["reason"]), rule=message["rule"])
        raise TunnelLost(f"closed with code {message.get('code')}")
    payload: bytes = message["bytes"]  # the socket lets nothing but binary messages through
    return payload


def _session_token(scope: dict[str, Any]) -> str:
    for name, value in scope["headers"]:
        if name == b"authorization" and len(value) <= _MAX_TOKEN_BYTES:
            scheme, _, token = value.decode("latin-1").partition(" ")
            return token.strip() if scheme.lower() == "bearer" else ""
    return ""


async def _refuse(send: AsgiSend, code: int, reason: str) -> None:
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": code, "reason": reason[:100]})
