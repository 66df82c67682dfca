"""One gateway process: its parts, built once, started and stopped in order."""

import asyncio
import hmac
import logging
import secrets
import time
from contextlib import suppress
from typing import Final

from django.conf import settings
from django.db import DatabaseError

from portal.gateway import background, dispatch, errors
from portal.gateway.addresses import AddressBook
from portal.gateway.admission import Admission
from portal.gateway.auth import Door
from portal.gateway.config import GatewayConfig
from portal.gateway.credit import CreditBook
from portal.gateway.evidence import EvidenceLog
from portal.gateway.limits import TOPIC as LIMITS
from portal.gateway.limits import Limiter, ValkeyLink
from portal.gateway.metrics import GatewayMetrics, Standing
from portal.gateway.retry_budget import RetryBudget
from portal.gateway.routing import Router
from portal.gateway.seeing import Seeing, traces_from_environment
from portal.gateway.settlement import Settlement
from portal.gateway.sightings import SightingBook
from portal.gateway.snapshot import SnapshotStore
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads
from portal.gateway.tunnel import peer_wire
from portal.gateway.tunnel.hub import TunnelHub
from portal.gateway.tunnel.peer_client import PeerLinks
from portal.gateway.tunnel.peer_server import PeerServer
from portal.gateway.tunnel.server import TunnelServer
from portal.gateway.tunnel.streams import TunnelLost
from portal.gateway.turned_away import TurnedAway
from portal.gateway.waiting import Waiting

log = logging.getLogger(__name__)

_WATCH_S: Final = 0.2
_TOUCH_EVERY: Final = 50
_CUT_S: Final = 5.0


class GatewayProcess:
    """Everything one process holds; nothing of it is global."""

    def __init__(self, config: GatewayConfig) -> None:
        self.config = config
        self.currency: str = settings.CURRENCY
        self.is_draining = False
        self.threads = DatabaseThreads()
        self._money_threads = DatabaseThreads()  # their calls are never abandoned, so nobody else waits behind them
        spool = Spool(folder=config.spool_dir, index=config.index, process=config.process)
        self.store = SnapshotStore(config.process)
        self.credit = CreditBook(spool=spool, threads=self._money_threads, store=self.store)
        self.settlement = Settlement(spool=spool, credit=self.credit, threads=self._money_threads)
        peer_key = peer_wire.derive_key(settings.SECRET_KEY)
        self.links = PeerLinks(key=peer_key, tls=config.peer_tls)
        self.hub = TunnelHub(
            process=config.process, peer_address=config.peer_address, links=self.links, threads=self.threads
        )
        self.peers = PeerServer(path=config.peer_socket, key=peer_key, tunnels=self.hub, tls=config.peer_tls)
        self.evidence = EvidenceLog(threads=self.threads)
        self.tunnel_server = TunnelServer(hub=self.hub, threads=self.threads, evidence=self.evidence)
        self.router = Router(tunnels=self.hub, clock=time.monotonic)
        self.waiting = Waiting(self.router)
        self.store.on_change(self.waiting.renew)
        self.hub.on_change(self.waiting.note_node)
        instance = f"{config.process}.{secrets.token_hex(4)}"  # a process that died keeps its places until they expire
        self.limiter = Limiter(config, ValkeyLink(url=settings.REDIS_URL, process=instance))
        self.store.subscribe(LIMITS, self.limiter.hear)
        self.sightings = SightingBook(threads=self.threads)
        self.turned_away = TurnedAway(threads=self.threads)
        self.door = Door(
            addresses=AddressBook(trusted=settings.TRUSTED_PROXIES, country_header=config.country_header),
            sightings=self.sightings,
        )
        self.admission = Admission(
            door=self.door,
            parts=dispatch.Parts(
                hub=self.hub,
                router=self.router,
                waiting=self.waiting,
                retries=RetryBudget(time.monotonic, floor=config.retry_floor),
                credit=self.credit,
                settlement=self.settlement,
                evidence=self.evidence,
                turned_away=self.turned_away,
            ),
            limiter=self.limiter,
            measure=self.settlement.measure,
            salt_key=hmac.digest(settings.SECRET_KEY.encode(), b"poolhouse-cache-salt-v1", "sha256"),
            currency=self.currency,
        )
        self.metrics_token: str = settings.METRICS_TOKEN
        self.seeing = Seeing(
            metrics=GatewayMetrics(folder=config.metrics_dir, index=config.index),
            traces=traces_from_environment(process=config.process),
            standing=self._standing,
        )
        self.settlement.on_close(self.seeing.closed)
        self._watcher: asyncio.Task[None] | None = None
        self._recorder: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the parts; the process is ready once the snapshot is loaded."""
        await self.settlement.start()
        await self.credit.start()
        await self.limiter.start()
        await self.store.start()
        await self.sightings.start()
        await self.turned_away.start()
        await self.hub.start()
        await self.peers.start()
        await self.seeing.start()
        self._watcher = background.start(self._watch())
        self._recorder = background.start(self.evidence.run())
        log.info("gateway.started", extra={"gateway": self.config.process})

    @property
    def is_watching(self) -> bool:
        """Whether tunnels that are no longer ours are still noticed."""
        return self._watcher is not None and not self._watcher.done()

    async def drain(self) -> None:
        """Admit nothing more, send the agents elsewhere and wait for running requests, at most `drain_s`.

        Answers that take longer end with an error that says so, paid for as far as they came.
        """
        self.is_draining = True
        await self.hub.go_away()
        if not await self._is_idle_within(self.config.drain_s):
            for exchange in list(self.admission.running):
                message = "This gateway process is restarting, and this answer took longer than it could wait; retry."
                exchange.cut(errors.unavailable("draining", message, retry_after_s=1.0))
            await self._is_idle_within(_CUT_S)

    async def _is_idle_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self.limiter.until_idle()
                await self.hub.until_idle()
        except TimeoutError:
            return False
        return True

    async def stop(self) -> None:
        """Stop the parts in the reverse order; what is spooled stays spooled."""
        await background.stop(self._watcher, self._recorder)
        await self.evidence.flush()
        await self.peers.stop()
        await self.links.stop()
        await self.store.stop()
        await self.sightings.stop()
        await self.turned_away.stop()
        await self.limiter.stop()
        await self.credit.stop()
        await self.settlement.stop()
        await self.seeing.stop()
        self._money_threads.stop()
        self.threads.stop()

    def _standing(self, loop_lag_s: float) -> Standing:
        return Standing(
            running=self.limiter.running,
            tunnels=len(self.hub.tunnels),
            queued=self.waiting.depth,
            unshipped=self.settlement.unshipped,
            snapshot_age_s=self.store.age_s(time.monotonic()),
            loop_lag_s=loop_lag_s,
            evidence_dropped=self.evidence.dropped,
            sightings_dropped=self.sightings.dropped,
        )

    async def _watch(self) -> None:
        """Close tunnels that are no longer ours, and renew the claims on those that are."""
        rounds = 0
        while True:
            await asyncio.sleep(_WATCH_S)
            rounds += 1
            await self.hub.supersede(self.store.current)
            if rounds % _TOUCH_EVERY == 0:
                with suppress(TunnelLost):
                    await self._touch()

    async def _touch(self) -> None:
        try:
            await self.hub.touch()
        except (DatabaseError, TimeoutError) as error:
            log.warning("tunnel.touch_failed", extra={"reason": type(error).__name__})
