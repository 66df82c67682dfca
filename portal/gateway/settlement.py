"""The life of a paid attempt: opened in the spool before dispatch, marked each second, closed once with its bill.

What was handed to the customer's socket is charged and paid; what is not charged is not paid.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

from django.db import Error as DatabaseError

from portal.billing.rules import settling
from portal.billing.rules.settling import Agreed, Bill, Observed
from portal.billing.services import replay
from portal.core import clock
from portal.gateway import background, marks
from portal.gateway.adopter import Adopter
from portal.gateway.contracts import Attempt, Hold, NodeEntry, PriceEntry, RequestFacts, Settled
from portal.gateway.coverage import Cover
from portal.gateway.credit import CreditBook
from portal.gateway.marks import Tracked
from portal.gateway.prefixes import PrefixHistory
from portal.gateway.shipper import Shipper
from portal.gateway.spool import Spool, SpoolUnavailable
from portal.gateway.threads import DatabaseThreads
from portal.gateway.tokens import Counts, Delivered, TokenCounters
from portal.metering.rules import counting, draws, outcomes, spool_records
from portal.metering.rules.spool_records import OpenRecord, PinnedPrice
from portal.metering.services.spool_files import AlreadyClosed

__all__ = ["Settlement", "SpoolUnavailable"]

log = logging.getLogger(__name__)

ClosedListener = Callable[[Attempt, Settled, str], None]

_MARK_S: Final = 1.0
_STOP_S: Final = 20.0


class Settlement:
    """One object a process. Its counters measure prompts for admission as well."""

    def __init__(
        self, *, spool: Spool, credit: CreditBook, threads: DatabaseThreads, counters: TokenCounters | None = None
    ) -> None:
        self.measure = counters or TokenCounters()
        self._spool = spool
        self._credit = credit
        self._threads = threads
        self._shipper = Shipper(spool=spool, threads=threads)
        self._adopter = Adopter(folder=spool.folder, own=spool.file.path)
        self._open: dict[int, Tracked] = {}
        self._closing: set[asyncio.Task[Settled]] = set()
        self._unwritten: list[_Unwritten] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._listeners: list[ClosedListener] = []
        self._prefixes = PrefixHistory()

    def on_close(self, listener: ClosedListener) -> None:
        """Call `listener` with each attempt, how it was settled and its error code, once it is closed."""
        self._listeners.append(listener)

    @property
    def unshipped(self) -> int:
        """How many closed records of this process are not in the database yet."""
        return self._spool.file.last_seq - self._spool.shipped_seq

    async def start(self) -> None:
        """Begin to mark, ship and adopt."""
        works = (self._mark_each_second, self._shipper.run, self._adopter.run)
        self._tasks = [background.start(work()) for work in works]

    async def stop(self) -> None:
        """Let closes end, ship what is closed, and leave an empty spool behind; what remains is adopted later."""
        if self._closing:
            await asyncio.wait(self._closing, timeout=_STOP_S)
        await background.stop(*self._tasks)
        await self._write_again()
        is_empty = await self._shipper.ship() and self._shipper.is_done and not (self._open or self._unwritten)
        is_empty = is_empty and await self._retire()
        self._shipper.stop()
        self._adopter.stop()
        self.measure.stop()
        self._spool.leave(is_empty=is_empty)

    async def open(
        self,
        *,
        facts: RequestFacts,
        hold: Hold,
        node: NodeEntry,
        number: int,
        routing: dict[str, Any],
        price: PriceEntry | None = None,
    ) -> Attempt:
        """Write the open record; only then may the request go to the node. Raises SpoolUnavailable."""
        if self._shipper.is_refused:
            raise SpoolUnavailable("this process's spool was abandoned by the operator", fix="restart this gateway")
        attempt = Attempt(facts, hold, node, number, routing, 0, node_price=price, opened_at=time.time())
        attempt.spool_row = row = await self._spool.records.open(_open_record(attempt))
        hold.may_grow = True
        self._open[row] = tracked = Tracked(attempt, hold.nano)
        if facts.is_stream:
            tracked.cover = attempt.cover = Cover.of(
                attempt, credit=self._credit, recount=partial(self._recount, tracked)
            )
        return attempt

    async def close(self, attempt: Attempt, *, outcome: str, error_code: str = "", keep_hold: bool = False) -> Settled:
        """Count, rate and write the close, whoever stops waiting for it; release the hold unless it goes on.

        A hold that was charged is always released. Raises AlreadyClosed.
        """
        if not attempt.is_open:
            raise AlreadyClosed(f"attempt {attempt.number} of {attempt.facts.request_id} is closed already")
        attempt.is_open = attempt.hold.may_grow = False
        task = asyncio.get_running_loop().create_task(self._close(attempt, outcome, error_code, keep_hold=keep_hold))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return await asyncio.shield(task)

    async def mark_all(self) -> int:
        """Count and write what open attempts have delivered since their last marks; return how many were marked."""
        due = [row for row in self._open.values() if row.is_due]
        if due:
            await marks.count_due(due, self.measure)
            self._spool.file.mark([marks.encode(row) for row in due if row.attempt.is_open])
            for cover in (row.cover for row in due if row.cover is not None and row.attempt.is_open):
                cover.grow_ahead()
        return len(due)

    async def ship(self) -> bool:
        """Ship what is closed now; False where the database or the disk did not let it."""
        return await self._shipper.ship()

    async def adopt(self) -> int:
        """Take over the spools of dead processes now; return how many there were."""
        return await self._adopter.adopt()

    async def _retire(self) -> bool:
        """Return all leases; False where the database does not answer: whoever adopts the spool does it then."""
        if not self._spool.is_registered:
            return True
        try:
            await self._threads.run(replay.retire, timeout_s=_STOP_S, spool_id=self._spool.spool_id, now=clock.now())
        except (DatabaseError, TimeoutError) as error:
            log.warning("settlement.not_retired", extra={"reason": type(error).__name__})
            return False
        return True

    async def _close(self, attempt: Attempt, outcome: str, error_code: str, *, keep_hold: bool) -> Settled:
        tracked = self._open[attempt.spool_row]
        if tracked.cover is not None:
            tracked.cover.stop()
        outcome = _honest(outcome, attempt)
        counts = None
        if outcomes.is_charged(outcome=outcome, has_delivered=attempt.delivered_bytes > 0):
            counts = await self._count(tracked)
        observed = _observed(attempt, counts)
        if counts is not None:
            expected = self._prefixes.expected_tokens(attempt, prompt_tokens=counts.prompt)
            observed = replace(observed, expected_cached=expected) if expected is not None else observed
        bill = settling.settle(outcome=outcome, agreed=_agreed(attempt), observed=observed)
        columns = settling.columns(bill=bill, observed=observed)
        columns |= draws.columns(charge_nano=bill.charge_nano, draws=attempt.hold.draws())
        columns |= {
            "outcome": outcome,
            "error_code": error_code[:48],
            "first_token_at": attempt.first_token_at,
            "closed_at": time.time(),
        }
        if attempt.digest is not None:
            columns["tunnel_proof"] = attempt.digest.proof()
        if attempt.retry_stopped_by:
            columns["routing"] = attempt.routing | {"retry_stopped_by": attempt.retry_stopped_by}
        is_released = bill.charge_nano > 0 or not keep_hold
        close = _Unwritten(attempt, spool_records.encode_close(columns), bill, is_released=is_released)
        if not await self._write(close):
            self._unwritten.append(close)
        del self._open[attempt.spool_row]
        settled = _settled(outcome, bill)
        for listener in self._listeners:
            listener(attempt, settled, error_code)
        return settled

    async def _recount(self, tracked: Tracked) -> int | None:
        """Count all that was delivered so far, as the bill will."""
        counts = await self._count(tracked)
        return counts.completion if counts is not None else None

    async def _count(self, tracked: Tracked) -> Counts | None:
        facts, attempt = tracked.attempt.facts, tracked.attempt
        texts = ["".join(pieces) for pieces in attempt.delivered_by_choice.values()]
        delivered = Delivered(texts, attempt.finished_choices)
        return await self.measure.count(facts.model, facts.body, delivered, prompt=tracked.prompt)

    async def _write(self, close: "_Unwritten") -> bool:
        """Write the close, then release the hold: money is free again only once its charge cannot be lost."""
        try:
            seq = await self._spool.records.close(close.attempt.spool_row, close.body)
        except SpoolUnavailable as error:
            log.error("settlement.close_not_written", extra={"reason": error.message})  # noqa: TRY400  retried
            return False
        if close.is_released:
            self._credit.release(close.attempt.hold, close.bill.charge_nano, seq=seq)
        self._shipper.wake()
        return True

    async def _write_again(self) -> None:
        waiting, self._unwritten = self._unwritten, []
        for close in waiting:
            if not await self._write(close):
                self._unwritten.append(close)

    async def _mark_each_second(self) -> None:
        while True:
            await asyncio.sleep(_MARK_S)
            try:
                await self._write_again()
                await self.mark_all()
            except SpoolUnavailable as error:
                log.error("settlement.not_marked", extra={"reason": error.message})  # noqa: TRY400  retried


class _Unwritten:
    """A close on its way into the spool."""

    __slots__ = ("attempt", "bill", "body", "is_released")

    def __init__(self, attempt: Attempt, body: bytes, bill: Bill, *, is_released: bool) -> None:
        self.attempt = attempt
        self.body = body
        self.bill = bill
        self.is_released = is_released


def _open_record(attempt: Attempt) -> bytes:
    facts, hold, node, price = attempt.facts, attempt.hold, attempt.node, attempt.price
    return spool_records.encode_open(
        OpenRecord(
            row={
                "request_id": str(facts.request_id),
                "attempt": attempt.number,
                "organization_id": facts.key.organization_id,
                "api_key_id": facts.key.id,
                "provider_id": node.provider_id,
                "node_id": node.id,
                "model_id": facts.model.id,
                "price_version_id": price.id,
                "share_bps": node.share_bps,
                "is_stream": facts.is_stream,
                "endpoint": facts.endpoint[:24],
                "node_class": node.node_class,
                "country": node.country,
                "client_request_id": facts.client_request_id.replace("\x00", "")[:128],
                "routing": attempt.routing or None,
            },
            price=PinnedPrice(
                price.prompt_nano_per_mtok,
                price.cached_nano_per_mtok,
                price.completion_nano_per_mtok,
                price.request_nano,
            ),
            draws=hold.draws(),
            requested_at=facts.opened_at,
            opened_at=attempt.opened_at,
            prompt_bound=facts.prompt_bound_tokens,
            output_bound=facts.output_bound_tokens,
            has_tolerance=facts.model.id not in node.models_without_tolerance,
            end_tokens=facts.model.end_tokens,
        )
    )


def _honest(outcome: str, attempt: Attempt) -> str:
    """An answer without a byte of text is no answer, whatever its end looked like; an embedding has no text."""
    generates = "input" not in attempt.facts.body
    if outcome == outcomes.COMPLETED and generates and not attempt.delivered_bytes:
        return outcomes.EMPTY
    return outcome


def _agreed(attempt: Attempt) -> Agreed:
    facts = attempt.facts
    return Agreed(
        price=attempt.price,
        share_bps=attempt.node.share_bps,
        hold_nano=attempt.hold.nano,
        prompt_bound=facts.prompt_bound_tokens,
        output_bound=facts.output_bound_tokens,
        has_tolerance=facts.model.id not in attempt.node.models_without_tolerance,
        trusts_cached=facts.model.id not in attempt.node.models_with_hidden_cache,
    )


def _observed(attempt: Attempt, counts: Counts | None) -> Observed:
    claim = attempt.claim
    return Observed(
        claimed_prompt=counting.sound(claim.prompt),
        claimed_cached=counting.sound(claim.cached),
        claimed_completion=counting.sound(claim.completion),
        counted_prompt=counts.prompt if counts else None,
        counted_completion=counts.completion if counts else None,
        end_tokens=counts.extra if counts else 0,
        delivered_bytes=attempt.delivered_bytes,
    )


def _settled(outcome: str, bill: Bill) -> Settled:
    return Settled(
        outcome=outcome,
        prompt_tokens=bill.prompt_tokens,
        cached_tokens=bill.cached_tokens,
        completion_tokens=bill.completion_tokens,
        token_source=bill.token_source,
        charge_nano=bill.charge_nano,
        provider_nano=bill.provider_nano,
    )
