"""Hands claims in and takes receipts back, a batch every few seconds; whatever fails is tried again later."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Final

from poolhouse_common.receipts import claim_message

from poolhouse_agent.backoff import Backoff
from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import AgentError, ConfigError, PortalError, fix_of
from poolhouse_agent.identity import Identity
from poolhouse_agent.protocol import receipts as protocol
from poolhouse_agent.protocol.receipts import Result
from poolhouse_agent.receipts import signatures
from poolhouse_agent.receipts.book import Book
from poolhouse_agent.session import SessionKeeper

log = logging.getLogger(__name__)

PAUSE_S: Final = 5.0
KEEP_S: Final = 30.0
_HURRY_S: Final = 0.2
_LONGEST_S: Final = 600.0
_NOT_FOUND: Final = 404
_NOT_OFFERED_S: Final = 3600.0


class ReceiptSender:
    """Runs for ever beside the heart. A portal that knows no receipts is asked again after an hour."""

    def __init__(self, client: PortalClient, sessions: SessionKeeper, identity: Identity, *, book: Book) -> None:
        self._client = client
        self._sessions = sessions
        self._identity = identity
        self.book = book
        self._backoff = Backoff(first_s=PAUSE_S, longest_s=_LONGEST_S)

    async def run(self, *, pause_s: float = PAUSE_S) -> None:
        """Exchange claims for receipts until cancelled; what waits is on the disk then."""
        try:
            while True:
                await self._rest(await self.once(pause_s))
        finally:
            self.book.flush()

    async def _rest(self, delay_s: float) -> None:
        """Wait; what is claimed meanwhile reaches the disk all the same, however long the portal is away."""
        while delay_s > KEEP_S:
            await asyncio.sleep(KEEP_S)
            delay_s -= KEEP_S
            try:
                self.book.flush()
            except ConfigError as error:
                _say_not_stored(error)
        await asyncio.sleep(delay_s)

    async def once(self, pause_s: float) -> float:
        """Hand in one batch; return how long to wait."""
        try:
            self.book.flush()
            progress = await self.exchange() if self.book.waiting and self._sessions.current is not None else False
        except PortalError as error:
            if error.status == _NOT_FOUND:
                return _NOT_OFFERED_S
            log.warning("receipts.not_taken", extra={"code": error.code, "detail": error.detail})
            return self._backoff.next_s()
        except AgentError as error:
            _say_not_stored(error)
            return self._backoff.next_s()
        if not progress and self.book.waiting:
            return self._backoff.next_s()
        self._backoff.reset()
        return min(pause_s, _HURRY_S) if self.book.waiting >= protocol.MAX_CLAIMS else pause_s

    async def exchange(self) -> bool:
        """Hand in the oldest claims; tell whether any is done with. Raises PortalError, ConfigError."""
        session = await self._sessions.ensure()
        claims = self.book.oldest(limit=protocol.MAX_CLAIMS)
        signed = [(claim, self._identity.sign(claim_message(claim))) for claim in claims]
        answer = await self._client.post("/agent/v1/receipts", protocol.receipts_body(signed), bearer=session.token)
        reply = protocol.read_receipts(answer)
        self._require_known(reply.signing_key)
        asked = {claim["attempt"]: claim for claim in claims}
        results = [one for one in reply.results if one.attempt in asked]
        receipts = [self._checked(one, asked[one.attempt], reply.signing_key) for one in results if one.receipt]
        refused = [one.attempt for one in results if one.state == "refused"]
        self._say_refused(results)
        self.book.settle(receipts=receipts, refused=refused)
        self.book.postpone(one.attempt for one in results if one.state == "waiting")
        self.book.flush()
        return bool(receipts or refused)

    def _require_known(self, key: str) -> None:
        """Pin the portal's key at first sight. Raises PortalError where it is another one now."""
        pinned = self.book.portal_key()
        if not pinned:
            self.book.pin(key)
            log.info("receipts.portal_key_pinned", extra={"key": key})
        elif pinned != key:
            raise PortalError("receipt_key_changed", f"{key} instead of {pinned}", fix=fix_of("receipt_key_changed"))

    def _checked(self, result: Result, claim: Mapping[str, Any], key: str) -> Mapping[str, Any]:
        """Return the receipt. Raises PortalError where it is not for this claim or not signed."""
        receipt = result.receipt or {}
        if receipt.get("claim") != claim or receipt.get("node_key") != self._identity.public_key:
            raise PortalError("receipt_unsound", f"the receipt of {result.attempt} is for another claim")
        if not signatures.is_portals(receipt, portal_key=key):
            raise PortalError("receipt_unsound", f"the receipt of {result.attempt} is not signed by the portal")
        return receipt

    def _say_refused(self, results: list[Result]) -> None:
        for one in results:
            if one.state == "refused":
                log.warning("receipts.refused", extra={"attempt": one.attempt, "code": one.code})


def _say_not_stored(error: AgentError) -> None:
    log.error("receipts.not_stored", extra={"code": error.code, "detail": error.detail, "fix": error.fix})
