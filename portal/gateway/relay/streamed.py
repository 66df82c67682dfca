"""The answer that comes in pieces: nothing is written before the first delta, nothing is replayed after it."""

import time
from typing import Final

from portal.gateway import failures, rewrite, sse
from portal.gateway.contracts import Attempt, Settled
from portal.gateway.errors import ApiError
from portal.gateway.exchange import Exchange
from portal.gateway.failures import Ending
from portal.gateway.relay.calls import Call, Settle
from portal.gateway.relay.upstream import Upstream
from portal.gateway.tunnel.streams import NodeSilent

# A single line feed: openai's clients stumble over a comment followed by a blank line.
_PING: Final = b": ping\n"
_DONE: Final = b"data: [DONE]\n\n"
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
    usage = b""
    if call.chat.wants_usage:
        usage = rewrite.usage_bytes(carried.names, await settle(), call.currency)
    await call.exchange.write(usage + _DONE, has_more=False)


async def end_empty(call: Call, ending: Ending, settled: Settled) -> None:
    """Give the customer a stream without text, which costs nothing."""
    if not call.exchange.has_started:
        await call.exchange.start(200, [*_HEADERS, *call.headers()])
    usage = rewrite.usage_bytes(call.names, settled, call.currency) if call.chat.wants_usage else b""
    await call.exchange.write(ending.events + usage + _DONE, has_more=False)


async def end_in_band(exchange: Exchange, error: ApiError) -> None:
    """End a stream that has begun with an error event and without [DONE]."""
    await exchange.write(rewrite.event(error.body()), has_more=False)


class _Carried:
    """One stream under way."""

    def __init__(self, call: Call, attempt: Attempt, upstream: Upstream) -> None:
        self.names = call.names
        self._call = call
        self._attempt = attempt
        self._upstream = upstream
        self._splitter = sse.EventSplitter()
        self._held: list[bytes] = []
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
            raise failures.empty(Ending(events=b"".join(self._held)))

    def _is_whole(self) -> bool:
        return self._is_done and self._attempt.finished_choices >= self.names.choices

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
        await self._begin()
        await self._call.exchange.write(_PING)

    async def _begin(self) -> None:
        exchange = self._call.exchange
        if not exchange.has_started:
            await exchange.start(200, [*_HEADERS, *self._call.headers()])

    async def _take(self, events: list[bytes]) -> None:
        """Write what the events brought, as one piece, then note it as handed over."""
        out: list[bytes] = []
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
                out.append(rewrite.chunk_bytes(generated.choices, self.names, with_usage=self._call.chat.wants_usage))
                texts += generated.texts
                finished += generated.finished
        if out:
            await self._hand_over(out, texts)
        self._attempt.finished_choices += finished

    def _rebuild(self, data: bytes) -> rewrite.Generated:
        self._events += 1
        if self._events > self._call.facts.output_bound_tokens + _MAX_EVENTS_BESIDE_TOKENS:
            raise failures.broke("stream_too_long")
        value = rewrite.parse(data)
        rewrite.take_claim(value, self._attempt.claim)
        return rewrite.chunk(value, self.names)

    async def _hand_over(self, out: list[bytes], texts: list[tuple[int, str]]) -> None:
        attempt = self._attempt
        if attempt.first_token_at is None:
            if not texts:
                self._held += out
                if len(self._held) > _MAX_HELD:
                    raise failures.broke("stream_without_text")
                return
            await self._begin()
            out = self._held + out
            self._held = []
        await self._call.exchange.write(b"".join(out))
        if texts and attempt.first_token_at is None:
            attempt.first_token_at = time.time()
        for index, text in texts:
            attempt.deliver(text, choice=index)
        if attempt.delivered_bytes > self._call.facts.output_bound_tokens * _MAX_TOKEN_BYTES:
            raise failures.broke("stream_too_long")
