"""The answer that comes in pieces: nothing is written before the first delta, nothing is replayed after it."""

import time
from typing import Final

from portal.gateway import failures, rewrite, sse
from portal.gateway.contracts import Attempt, Settled
from portal.gateway.dialects.base import Choices
from portal.gateway.failures import Ending
from portal.gateway.relay.calls import Call, Settle
from portal.gateway.relay.upstream import Upstream
from portal.gateway.tunnel.streams import NodeSilent

_MAX_HELD: Final = 64
_MAX_EVENTS_BESIDE_TOKENS: Final = 256
_MAX_TOKEN_BYTES: Final = 512
_HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


async def relay(call: Call, attempt: Attempt, upstream: Upstream, settle: Settle) -> None:
    """Carry a stream. Raises NodeFailed or CustomerGone; after the first delta the caller ends it in the band."""
    carried = _Carried(call, attempt, upstream)
    await carried.run()
    settled = await settle() if call.dialect.needs_settled else None
    await call.exchange.write(call.dialect.end(settled), has_more=False)


async def end_empty(call: Call, ending: Ending, settled: Settled) -> None:
    """Give the customer a stream without text, which costs nothing."""
    out = [await _begin(call), *map(call.dialect.delta, ending.pieces), call.dialect.end(settled)]
    await call.exchange.write(b"".join(out), has_more=False)


async def _begin(call: Call) -> bytes:
    """Send the headers unless they were sent; return what comes before the first event."""
    if call.exchange.has_started:
        return b""
    await call.exchange.start(200, _HEADERS)
    return call.dialect.begin()


class _Carried:
    """One stream under way."""

    def __init__(self, call: Call, attempt: Attempt, upstream: Upstream) -> None:
        self._call = call
        self._attempt = attempt
        self._upstream = upstream
        self._splitter = sse.EventSplitter()
        self._held: list[Choices] = []
        self._events = 0
        self._is_done = False
        self._dispatched = time.monotonic()

    async def run(self) -> None:
        """Carry all events up to the end. Raises NodeFailed or CustomerGone."""
        while (piece := await self._read()) is not None:
            try:
                events = self._splitter.feed(piece)
            except sse.EventTooLarge as error:
                raise failures.broke("event_too_large") from error
            await self._take(events)
        await self._take(self._splitter.finish())
        if not self._is_whole():
            raise failures.broke("stream_truncated")
        if self._attempt.first_token_at is None:
            raise failures.empty(Ending(pieces=tuple(self._held)))

    def _is_whole(self) -> bool:
        return self._is_done and self._attempt.finished_choices >= self._call.names.choices

    async def _read(self) -> bytes | None:
        """Wait for bytes; the customer's connection is kept alive meanwhile."""
        waiting_since = time.monotonic()
        limit_s = self._call.pace.idle_s
        if self._attempt.first_token_at is None:
            waiting_since, limit_s = self._dispatched, float(self._call.facts.model.first_token_timeout_s)
        while True:
            left_s = limit_s - (time.monotonic() - waiting_since)
            if left_s <= 0:
                stage = "first_token" if self._attempt.first_token_at is None else "idle"
                raise failures.silent(stage)
            try:
                return await self._upstream.read(min(left_s, self._call.pace.keep_alive_s))
            except NodeSilent:
                await self._keep_alive()

    async def _keep_alive(self) -> None:
        if time.monotonic() - self._dispatched < self._call.pace.keep_alive_s:
            return
        lead = await _begin(self._call)
        await self._call.exchange.write(lead + self._call.dialect.ping())

    async def _take(self, events: list[bytes]) -> None:
        """Write what the events brought, as one piece, then note it as handed over."""
        fresh: list[Choices] = []
        texts: list[tuple[int, str]] = []
        finished = 0
        for data in events:
            if data == sse.DONE:
                self._is_done = True
                continue
            if self._is_done:
                raise failures.broke("event_after_done")
            generated = self._rebuild(data)
            if generated.choices:
                fresh.append(generated.choices)
                texts += generated.texts
                finished += generated.finished
        if fresh:
            await self._hand_over(fresh, texts)
        self._attempt.finished_choices += finished

    def _rebuild(self, data: bytes) -> rewrite.Generated:
        self._events += 1
        if self._events > self._call.facts.output_bound_tokens + _MAX_EVENTS_BESIDE_TOKENS:
            raise failures.broke("stream_too_long")
        value = rewrite.parse(data)
        rewrite.take_claim(value, self._attempt.claim)
        return self._call.reader.chunk(value, self._call.names)

    async def _hand_over(self, fresh: list[Choices], texts: list[tuple[int, str]]) -> None:
        attempt = self._attempt
        lead = b""
        if attempt.first_token_at is None:
            if not texts:
                self._held += fresh
                if len(self._held) > _MAX_HELD:
                    raise failures.broke("stream_without_text")
                return
            lead = await _begin(self._call)
            fresh = self._held + fresh
            self._held = []
        await self._call.exchange.write(lead + b"".join(map(self._call.dialect.delta, fresh)))
        if texts and attempt.first_token_at is None:
            attempt.first_token_at = time.time()
        for index, text in texts:
            attempt.deliver(text, choice=index)
        if attempt.delivered_bytes > self._call.facts.output_bound_tokens * _MAX_TOKEN_BYTES:
            raise failures.broke("stream_too_long")
