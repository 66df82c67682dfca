"""The answer that comes in pieces: nothing is written before the first delta, nothing is replayed after it."""

import time
from typing import Any, Final

from portal.gateway import failures, rewrite, sse
from portal.gateway.contracts import Attempt, Settled
from portal.gateway.dialects.base import Choices, StreamDialect
from portal.gateway.dialects.chat import ChatDialect
from portal.gateway.failures import Ending, NodeFailed
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


async def relay(call: Call, dialect: StreamDialect, attempt: Attempt, upstream: Upstream, settle: Settle) -> None:
    """Carry a stream. Raises NodeFailed, CustomerGone, MoneyRefused; once it has begun the caller ends it in band."""
    carried = _Carried(call, dialect, attempt, upstream)
    await carried.run()
    settled = await settle() if dialect.needs_settled else None
    await call.exchange.write(dialect.end(settled), has_more=False)


async def end_empty(call: Call, dialect: StreamDialect, ending: Ending, settled: Settled) -> None:
    """Give the customer a stream without text, which costs nothing."""
    out = [await _begin(call, dialect), *map(dialect.delta, ending.pieces), dialect.end(settled)]
    await call.exchange.write(b"".join(out), has_more=False)


async def _begin(call: Call, dialect: StreamDialect) -> bytes:
    """Send the headers unless they were sent; return what comes before the first event."""
    if call.exchange.has_started:
        return b""
    await call.exchange.start(200, _HEADERS)
    return dialect.begin()


class _Brought:
    """What some events brought: pieces to write, the texts in them and how many choices they ended."""

    __slots__ = ("finished", "fresh", "texts")

    def __init__(self) -> None:
        self.fresh: list[Choices | bytes] = []
        self.texts: list[tuple[int, str]] = []
        self.finished = 0


class _Carried:
    """One stream under way."""

    def __init__(self, call: Call, dialect: StreamDialect, attempt: Attempt, upstream: Upstream) -> None:
        self._call = call
        self._dialect = dialect
        self._attempt = attempt
        self._upstream = upstream
        self._splitter = sse.EventSplitter()
        self._held: list[Choices] = []
        self._events = 0
        self._bytes_left = call.longest_bytes
        self._most_events = call.facts.output_bound_tokens + _MAX_EVENTS_BESIDE_TOKENS
        self._most_bytes = call.facts.output_bound_tokens * _MAX_TOKEN_BYTES
        self._is_done = False
        self._has_written = False
        self._has_moved = False
        now = time.monotonic()
        self._stage_ends_at = now + call.facts.model.first_token_timeout_s
        self._whole_ends_at = now + call.longest_s - call.exchange.waited_s
        self._text_event = dialect.text if isinstance(dialect, ChatDialect) else None

    async def run(self) -> None:
        """Carry all events up to the end. Raises NodeFailed, CustomerGone, MoneyRefused."""
        while (piece := await self._read()) is not None:
            self._bytes_left -= len(piece)
            if self._bytes_left < 0:
                raise failures.broke("answer_too_large", most=self._call.longest_bytes)
            await self._take_within_hold(self._split(piece))
        await self._take(self._splitter.finish())
        if not self._is_whole():
            raise failures.broke("stream_truncated", events=self._events)
        if self._attempt.first_token_at is None:
            raise failures.empty(Ending(pieces=tuple(self._held)))

    def _split(self, piece: bytes) -> list[bytes]:
        try:
            return self._splitter.feed(piece)
        except sse.EventTooLarge as error:
            raise failures.broke("event_too_large", most=sse.MAX_EVENT_BYTES) from error

    def _is_whole(self) -> bool:
        return self._is_done and self._attempt.finished_choices >= self._call.names.choices

    async def _read(self) -> bytes | None:
        """Wait for bytes; the customer's connection is kept alive meanwhile.

        Bytes alone are no progress: a node that sends one a second, or comments, still has to bring an event in time.
        """
        now = time.monotonic()  # the one look at the clock a frame; what happened since the last one is dated by it
        if self._has_written:
            self._call.heard_at, self._has_written = now, False
        if self._has_moved and self._attempt.first_token_at is not None:
            self._stage_ends_at = now + self._call.pace.idle_s
        self._has_moved = False
        while True:
            # A customer who reads slowly holds his node up: that time is not the node's.
            whole_ends_at = self._whole_ends_at + self._call.exchange.waited_s
            if now >= self._stage_ends_at or now >= whole_ends_at:
                raise self._overdue(now)
            quiet_until = self._call.heard_at + self._call.pace.keep_alive_s
            if now >= quiet_until:
                await self._keep_alive()
                quiet_until = now + self._call.pace.keep_alive_s
            try:
                return await self._upstream.read(min(quiet_until, self._stage_ends_at, whole_ends_at) - now)
            except NodeSilent:
                now = time.monotonic()

    def _overdue(self, now: float) -> NodeFailed:
        stage, limit_s = "idle", self._call.pace.idle_s
        if self._attempt.first_token_at is None:
            stage, limit_s = "first_token", float(self._call.facts.model.first_token_timeout_s)
        since = self._stage_ends_at - limit_s
        is_stage = now >= self._stage_ends_at
        return failures.silent(stage if is_stage else "total", events=self._events, seconds=int(now - since))

    async def _keep_alive(self) -> None:
        lead = await _begin(self._call, self._dialect)
        await self._call.exchange.write(lead + self._dialect.ping())
        self._call.heard_at = time.monotonic()

    async def _take_within_hold(self, events: list[bytes]) -> None:
        """Take the events, one by one where the hold may end among them: what it still pays for is handed over."""
        cover = self._attempt.cover
        if cover is None or cover.pays_for(sum(map(len, events))):  # an event is never shorter than its text
            await self._take(events)
            return
        for event in events:
            await self._take([event])

    async def _take(self, events: list[bytes]) -> None:
        """Write what the events brought, as one piece, then note it as handed over."""
        brought = _Brought()
        self._has_moved = bool(events) or self._has_moved
        try:
            for data in events:
                self._read_event(data, brought)
        except NodeFailed:
            if brought.texts:  # what came before is as good as if it had come alone
                await self._hand_over(brought)
            raise
        await self._hand_over(brought)

    def _read_event(self, data: bytes, brought: "_Brought") -> None:
        if data == sse.DONE:
            self._is_done = True
            return
        value = self._parse(data)
        names, text_event = self._call.names, self._text_event
        if text_event is not None and (text := rewrite.plain_text(value, names)) is not None:
            brought.fresh.append(text_event(text))
            brought.texts.append((0, text))
            return
        generated = self._call.reader.chunk(value, names)
        if generated.choices:
            brought.fresh.append(generated.choices)
            brought.texts += generated.texts
            brought.finished += generated.finished

    def _parse(self, data: bytes) -> dict[str, Any]:
        if self._is_done:
            raise failures.broke("event_after_done")
        self._events += 1
        if self._events > self._most_events:
            raise failures.broke("stream_too_long", events=self._events)
        value = rewrite.parse(data)
        if value.get("usage") is not None:
            rewrite.take_event_claim(value, self._attempt.claim)
        return value

    async def _hand_over(self, brought: "_Brought") -> None:
        attempt, fresh, texts = self._attempt, brought.fresh, brought.texts
        if not fresh:
            return
        lead = b""
        if attempt.cover is not None and texts:
            await attempt.cover.reach(texts)
        if attempt.first_token_at is None:
            if not texts:
                self._held += [piece for piece in fresh if not isinstance(piece, bytes)]
                if len(self._held) > _MAX_HELD:
                    raise failures.broke("stream_without_text", events=self._events)
                attempt.finished_choices += brought.finished
                return
            lead = await _begin(self._call, self._dialect)
            fresh = [*self._held, *fresh]
            self._held = []
        delta = self._dialect.delta
        events = [piece if isinstance(piece, bytes) else delta(piece) for piece in fresh]
        await self._call.exchange.write(lead + b"".join(events))
        self._has_written = True
        if texts and attempt.first_token_at is None:
            attempt.first_token_at = time.time()
        for index, text in texts:
            attempt.deliver(text, choice=index)
        attempt.finished_choices += brought.finished
        if attempt.delivered_bytes > self._most_bytes:
            raise failures.broke("stream_too_long", bytes=attempt.delivered_bytes)
