"""From a hold to an answer: at most three attempts, each with a spool record that is opened and closed."""

import asyncio
import logging
import time
from dataclasses import dataclass
from typing import Final

import orjson
from poolhouse_common.receipts import TunnelDigest

from portal.core import clock, ids
from portal.gateway import failures, refusals
from portal.gateway.breaker import Verdict
from portal.gateway.capacity import NoCapacity
from portal.gateway.contracts import Attempt, Hold, Settled, Snapshot
from portal.gateway.credit import CreditBook
from portal.gateway.evidence import EvidenceLog
from portal.gateway.exchange import CustomerGone
from portal.gateway.failures import NodeFailed
from portal.gateway.hunt import Hunt
from portal.gateway.refusals import MoneyRefused
from portal.gateway.relay import streamed, whole
from portal.gateway.relay.calls import Call
from portal.gateway.relay.upstream import EVENTS, JSON, Upstream
from portal.gateway.retry_budget import RetryBudget
from portal.gateway.routing import Choice, Router
from portal.gateway.settlement import Settlement, SpoolUnavailable
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.connection import BodyTooLarge
from portal.gateway.tunnel.hub import TunnelHub
from portal.gateway.tunnel.streams import Interrupted, NodeStream, TunnelLost
from portal.gateway.turned_away import TurnedAway
from portal.gateway.waiting import Waiting

log = logging.getLogger(__name__)

_ABORT: Final = "customer_abort"
_COMPLETED: Final = "completed"
_CREDIT_END: Final = "credit_end"
_CRASH: Final = "platform_crash"
_SEND_TIMEOUT_S: Final = 30.0
# End tokens and the template's own are counted by some engines beyond what a bound can know.
_SPARE_TOKENS: Final = 64
_SETTLE_TIMEOUT_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Parts:
    """What an attempt needs of the process."""

    hub: TunnelHub
    router: Router
    waiting: Waiting
    retries: RetryBudget
    credit: CreditBook
    settlement: Settlement
    evidence: EvidenceLog
    turned_away: TurnedAway


async def serve(call: Call, parts: Parts, snapshot: Snapshot, hold: Hold) -> None:
    """Answer the request from a node, trying others while nothing has been handed over. Raises ApiError.

    Where the stream has begun already, the caller ends it with the error in the band.
    """
    try:
        failed = await _try_nodes(call, parts, snapshot, hold)
    except SpoolUnavailable as error:
        log.error("dispatch.not_recorded", extra={"reason": error.sentences})  # noqa: TRY400  its reason says it all
        raise refusals.unrecorded() from error
    except NoCapacity as refusal:
        parts.turned_away.note(call.facts.model.id, refusal, now=clock.now())
        raise
    finally:
        if hold.is_open:
            parts.credit.release(hold, 0)
    if failed is not None:
        await failed.give_up()


async def _try_nodes(call: Call, parts: Parts, snapshot: Snapshot, hold: Hold) -> "_Attempt | None":
    """Return the last attempt where none succeeded. Raises ApiError where there was none to make."""
    body = _body(call)
    hunt = Hunt(call, router=parts.router, waiting=parts.waiting, retries=parts.retries, snapshot=snapshot)
    failed: _Attempt | None = None
    while not hunt.is_over:
        try:
            choice = await hunt.next()
        except NoCapacity:
            if failed is None:
                raise
            return failed
        attempt = _Attempt(call, parts, choice, hunt, await _open(call, parts, hold, choice, hunt.number))
        try:
            await attempt.run(body)
        except NodeFailed as failure:
            failed = attempt
            _log_failure(call, choice, failure)
        else:
            hunt.served()
            return None
    return failed


async def _open(call: Call, parts: Parts, hold: Hold, choice: Choice, number: int) -> Attempt:
    """Open the attempt's record; where that fails the node's place is free again. Raises SpoolUnavailable."""
    attempt: Attempt | None = None
    try:
        attempt = await parts.settlement.open(
            facts=call.facts,
            hold=hold,
            node=choice.node,
            number=number,
            routing=choice.routing,
            price=choice.price,
        )
    finally:  # a cancellation, too, must give the place back
        if attempt is None:
            choice.ticket.leave(Verdict.NEUTRAL, time.monotonic())
    return attempt


class _Attempt:
    """One dispatch to one node: one spool record, one place on the node, one cleanup."""

    def __init__(self, call: Call, parts: Parts, choice: Choice, hunt: Hunt, attempt: Attempt) -> None:
        self._call = call
        self._hunt = hunt
        self._parts = parts
        self._choice = choice
        self._started = time.monotonic()
        self._opened_at = time.time()
        self._attempt = attempt
        self._settled: Settled | None = None
        self._failure: NodeFailed | None = None

    @property
    def has_delivered(self) -> bool:
        """Whether the customer was handed text of this attempt."""
        return self._attempt.first_token_at is not None

    async def run(self, body: bytes) -> None:
        """Carry the node's answer to the customer. Raises NodeFailed, CustomerGone, MoneyRefused."""
        outcome, code, verdict, backoff_s = _CRASH, "", Verdict.NEUTRAL, 0.0
        stream: NodeStream | None = None
        try:
            digest = self._attempt.digest = TunnelDigest(ids.random_bytes().hex(), body)
            stream = await self._send(body, digest.nonce)
            self._call.exchange.interrupts(stream)
            if len(body) > frames.PLAIN_BODY_BYTES:
                await self._send_rest(stream, body)
            await self._relay(stream, digest)
            outcome, verdict = _COMPLETED, Verdict.SUCCESS
        except CustomerGone:
            cut_by = self._call.exchange.cut_by
            outcome, code = (_ABORT, "customer_gone") if cut_by is None else (_CRASH, cut_by.code)
            raise
        except MoneyRefused as refusal:
            outcome, code = _CREDIT_END, refusal.code
            raise
        except NodeFailed as failure:
            self._failure = failure
            outcome, code, verdict, backoff_s = failure.outcome, failure.code, failure.verdict, failure.backoff_s
            self._attempt.retry_stopped_by = self._hunt.note_failure(
                failure, self._choice, has_delivered=self.has_delivered
            )
            raise
        finally:
            self._call.exchange.interrupts(None)
            self._choice.ticket.leave(verdict, time.monotonic(), backoff_s=backoff_s)
            await _close(stream)
            self._note_evidence()
            if self._attempt.is_open:
                self._learn(await self._settle(outcome, code), verdict)

    async def _relay(self, stream: NodeStream, digest: TunnelDigest) -> None:
        dialect = self._call.stream
        upstream = Upstream(stream, content_type=JSON if dialect is None else EVENTS, digest=digest)
        if dialect is None:
            await whole.relay(self._call, self._attempt, upstream, self._complete)
        else:
            await streamed.relay(self._call, dialect, self._attempt, upstream, self._complete)

    async def give_up(self) -> None:
        """Tell the customer how the last attempt failed; an answer without text is handed over, free of charge."""
        failure, settled = self._failure, self._settled
        if failure is None or settled is None:
            raise RuntimeError("an attempt that did not fail cannot be given up")
        if failure.ending is None:
            raise failure.for_customer() from failure
        if self._call.stream is not None:
            await streamed.end_empty(self._call, self._call.stream, failure.ending, settled)
        else:
            await whole.end_empty(self._call, failure.ending, settled, node=self._choice.node.public_id)

    async def _send(self, body: bytes, nonce: str) -> NodeStream:
        facts = self._call.facts
        head = {
            "method": "POST",
            "path": f"/v1/{facts.node_path}",
            "model": facts.model.public_id,
            "attempt": f"{facts.request_id}/{self._attempt.number}",
            "nonce": nonce,
        }
        payload = frames.pack_request(head, body)
        try:
            return await self._parts.hub.open(self._choice.node, payload, body_bytes=len(body))
        except TunnelLost as error:
            raise failures.tunnel_lost() from error
        except BodyTooLarge as error:
            raise failures.from_agent("body_too_large") from error

    async def _send_rest(self, stream: NodeStream, body: bytes) -> None:
        """Send what of a large body did not go into its REQUEST."""
        try:
            async with asyncio.timeout(_SEND_TIMEOUT_S):
                await stream.send_body(frames.body_pieces(body))
        except TunnelLost as error:
            raise failures.tunnel_lost() from error
        except Interrupted as error:
            raise CustomerGone from error
        except TimeoutError as error:
            raise failures.silent("send", bytes=len(body)) from error

    def _note_evidence(self) -> None:
        """Record what the node did against the rules, also where the answer was good all the same."""
        failure, attempt = self._failure, self._attempt
        found = dict.fromkeys(attempt.claim.oddities, "")
        bounds = attempt.facts
        if (attempt.claim.completion or 0) > bounds.output_bound_tokens + _SPARE_TOKENS or (
            attempt.claim.prompt or 0
        ) > bounds.prompt_bound_tokens + _SPARE_TOKENS:
            found["usage_above_bound"] = f"prompt {attempt.claim.prompt}, completion {attempt.claim.completion}"
        if failure is not None and failure.rule:
            found[failure.rule] = failure.code
        for rule, detail in found.items():
            self._parts.evidence.note(
                node_id=attempt.node.id,
                rule=rule,
                detail=detail,
                request_id=bounds.request_id,
                attempt=attempt.number,
                sample=orjson.dumps(failure.facts) if failure is not None and failure.facts else b"",
            )

    async def _complete(self) -> Settled:
        settled = await self._settle(_COMPLETED, "")
        self._learn(settled, Verdict.SUCCESS)
        return settled

    async def _settle(self, outcome: str, code: str) -> Settled:
        # While nothing was delivered the hold stays for the next attempt; `serve` gives back what is left of it.
        is_failed = outcome not in {_COMPLETED, _ABORT, _CREDIT_END, _CRASH}
        async with asyncio.timeout(_SETTLE_TIMEOUT_S):
            settled = await self._parts.settlement.close(
                self._attempt, outcome=outcome, error_code=code, keep_hold=is_failed
            )
        self._settled = settled
        self._call.used_tokens += settled.prompt_tokens + settled.completion_tokens
        return settled

    def _learn(self, settled: Settled, verdict: Verdict) -> None:
        if verdict is not Verdict.SUCCESS:
            return
        seconds = time.monotonic() - self._started
        first = self._attempt.first_token_at
        ttft_s = None
        if self._call.asked.is_stream and first is not None:
            ttft_s = min(max(0.0, first - self._opened_at), seconds)
        self._choice.ticket.load.learn(
            ttft_s=ttft_s, tokens=settled.completion_tokens, seconds=max(seconds - (ttft_s or 0.0), 1e-3)
        )


def _body(call: Call) -> bytes:
    body = orjson.dumps(call.facts.body)
    if len(body) > frames.MAX_BODY_BYTES:
        raise failures.body_too_large(len(body), most=frames.MAX_BODY_BYTES)
    return body


async def _close(stream: NodeStream | None) -> None:
    if stream is None:
        return
    try:
        await stream.close()
    except TunnelLost:
        log.info("relay.cancel_not_sent")


def _log_failure(call: Call, choice: Choice, failure: NodeFailed) -> None:
    log.warning(
        "relay.attempt_failed",
        extra={
            "request": str(call.facts.request_id),
            "node": choice.node.public_id,
            "outcome": failure.outcome,
            "code": failure.code,
        },
    )
