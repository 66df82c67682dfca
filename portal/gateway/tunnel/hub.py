"""All the ways to nodes that this process has: its own tunnels, and those its peers lend."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

from portal.core import clock
from portal.gateway.contracts import NodeEntry, Snapshot
from portal.gateway.threads import DatabaseThreads
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.connection import NodeTunnel
from portal.gateway.tunnel.peer_client import PeerLinks
from portal.gateway.tunnel.streams import NodeStream, TunnelLost
from portal.nodes.services import tunnels

log = logging.getLogger(__name__)

# A node that has just joined may be missing from a snapshot; one that stays missing is suspended or retired.
_KNOWN_AFTER_S: Final = 3.0
_IDLE_LOOK_S: Final = 0.05


class TunnelHub:
    """The tunnels of this process and the links to its peers."""

    def __init__(self, *, process: str, peer_address: str, links: PeerLinks, threads: DatabaseThreads) -> None:
        self.process = process
        self.peer_address = peer_address
        self.tunnels: dict[int, NodeTunnel] = {}
        self.is_draining = False
        self._listeners: list[Callable[[int], None]] = []
        self._links = links
        self._threads = threads

    async def start(self) -> None:
        """Give up what a dead process of our name still claims."""
        await self._threads.run(tunnels.release_all, process=self.process)

    def on_change(self, listener: Callable[[int], None]) -> None:
        """Call `listener(node_id)` whenever a node's tunnel came, or its agent said what it runs now."""
        self._listeners.append(listener)

    def changed(self, node_id: int) -> None:
        """Tell whoever waits for room that a node may have some."""
        for listener in self._listeners:
            listener(node_id)

    def local(self, node_id: int) -> NodeTunnel | None:
        """Return this process's own usable tunnel to the node."""
        tunnel = self.tunnels.get(node_id)
        return tunnel if tunnel is not None and tunnel.is_usable else None

    def is_reachable(self, node: NodeEntry) -> bool:
        """Return whether a request could be sent to the node now, by us or by a peer that answers."""
        if self.local(node.id) is not None:
            return True
        owner = node.tunnel
        return owner is not None and owner.process != self.process and self._links.is_usable(owner.peer)

    async def open(self, node: NodeEntry, payload: bytes, *, body_bytes: int) -> NodeStream:
        """Send one request, or the first piece of it, by the nearest tunnel. Raises TunnelLost, BodyTooLarge."""
        tunnel = self.local(node.id)
        if tunnel is not None:
            return await tunnel.open(payload, body_bytes=body_bytes)
        if node.tunnel is None or node.tunnel.process == self.process:
            raise TunnelLost("the node has no tunnel")
        return await self._links.open(node.tunnel.peer, node.id, payload, body_bytes=body_bytes)

    async def adopt(self, tunnel: NodeTunnel) -> bool:
        """Claim the node for this process; False when a newer session has it. An older tunnel of ours is closed."""
        claimed = await self._threads.run(
            tunnels.claim,
            node_id=tunnel.node_id,
            generation=tunnel.generation,
            process=self.process,
            peer=self.peer_address,
            now=clock.now(),
        )
        if not claimed:
            return False
        older = self.tunnels.get(tunnel.node_id)
        if older is not None and older.generation > tunnel.generation:
            return False
        self.tunnels[tunnel.node_id] = tunnel
        self.changed(tunnel.node_id)
        if older is not None:
            await older.close(frames.CLOSE_SUPERSEDED, "a newer tunnel of this node took over")
        return True

    async def drop(self, tunnel: NodeTunnel) -> None:
        """Forget a tunnel that has closed; the claim is given back unless somebody else has taken it."""
        tunnel.mux.lose()
        if self.tunnels.get(tunnel.node_id) is tunnel:
            del self.tunnels[tunnel.node_id]
            await self._threads.run(
                tunnels.release,
                node_id=tunnel.node_id,
                generation=tunnel.generation,
                process=self.process,
                now=clock.now(),
            )

    async def supersede(self, snapshot: Snapshot) -> None:
        """Close each tunnel whose node has begun a newer session, or is suspended or retired."""
        for tunnel in list(self.tunnels.values()):
            node = snapshot.nodes.get(tunnel.node_id)
            if node is None:
                if time.monotonic() - tunnel.connected_at > _KNOWN_AFTER_S:
                    log.info("tunnel.node_closed", extra={"node": tunnel.node_public_id})
                    await tunnel.close(frames.CLOSE_SESSION_INVALID, "the node is suspended or retired")
            elif node.generation > tunnel.generation:
                log.info("tunnel.superseded", extra={"node": tunnel.node_public_id, "generation": node.generation})
                await tunnel.close(frames.CLOSE_SUPERSEDED, "a newer session of this node has begun")

    async def touch(self) -> None:
        """Renew the claims on our tunnels; close those that are no longer ours."""
        for tunnel in list(self.tunnels.values()):
            if tunnel.is_draining:
                continue  # its agent has gone elsewhere with our blessing; what runs here still ends here
            is_ours = await self._threads.run(
                tunnels.touch,
                node_id=tunnel.node_id,
                generation=tunnel.generation,
                process=self.process,
                now=clock.now(),
            )
            if not is_ours:
                await tunnel.close(frames.CLOSE_SUPERSEDED, "another session or process has this node")

    async def until_idle(self) -> None:
        """Wait until no stream runs on our tunnels, a peer's neither."""
        while any(tunnel.mux.open_streams for tunnel in self.tunnels.values()):  # noqa: ASYNC110  streams have no event
            await asyncio.sleep(_IDLE_LOOK_S)

    async def go_away(self) -> None:
        """Tell every agent that this process drains."""
        self.is_draining = True
        farewells = [tunnel.go_away() for tunnel in self.tunnels.values()]
        for result in await asyncio.gather(*farewells, return_exceptions=True):
            if isinstance(result, BaseException):
                log.info("tunnel.goaway_failed", extra={"reason": type(result).__name__})
