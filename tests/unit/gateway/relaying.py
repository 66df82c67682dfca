"""One relayed attempt without processes: the node's frames go in by hand, the customer is a fake at ASGI's level."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from poolhouse_common.receipts import TunnelDigest

from portal.core import ids
from portal.gateway.contracts import Attempt, RequestFacts, Settled
from portal.gateway.dialects.base import Stamp
from portal.gateway.endpoints.chat import ChatEndpoint
from portal.gateway.relay import streamed, whole
from portal.gateway.relay.calls import Call, Pace
from portal.gateway.relay.upstream import EVENTS, JSON, Upstream
from portal.gateway.tunnel import frames
from portal.gateway.tunnel.streams import Mux
from tests.factories.gateway import a_hold, key_entry, model_entry, node_entry, price_entry
from tests.fakes.customer import Customer

PACE = Pace(keep_alive_s=0.05, idle_s=0.3)


class Relayed:
    """Runs a relay in a task. `frame`, `event` and the like are what the node sends."""

    def __init__(self, *, first_token_timeout_s: float = 1.0, pace: Pace = PACE, **fields: Any) -> None:
        self.customer = Customer()
        self.sent: list[tuple[int, int, bytes]] = []
        self.settled = 0
        self._fields = {"messages": [{"role": "user", "content": "Hi"}]} | fields
        self._model = model_entry(first_token_timeout_s=first_token_timeout_s)
        self._pace = pace

    async def begin(self) -> "Relayed":
        await self.customer.exchange.read_body()
        self._mux = Mux(self._take)
        self._stream = await self._mux.open(b"")
        endpoint = ChatEndpoint()
        translation = endpoint.translate(self._fields, self._model, Stamp(ids.uuid7(), 0, "usd"))
        request = translation.asked
        facts = RequestFacts(
            request_id=ids.uuid7(),
            client_request_id="",
            key=key_entry(),
            model=self._model,
            price=price_entry(),
            endpoint="chat/completions",
            is_stream=request.is_stream,
            body=request.body,
            prompt_bound_tokens=50,
            output_bound_tokens=request.choices * request.output_tokens,
            hold_nano=1,
            opened_at=0.0,
        )
        call = Call(
            self.customer.exchange,
            facts,
            request,
            translation.names,
            translation.dialect,
            translation.stream,
            endpoint.reader,
            None,
            pace=self._pace,
        )
        self.attempt = Attempt(facts, a_hold(), node_entry(), 1, {}, 1)
        self._content_type = EVENTS if facts.is_stream else JSON
        upstream = Upstream(self._stream, content_type=self._content_type, digest=TunnelDigest("", b""))
        self.customer.exchange.watch()
        self.customer.exchange.interrupts(self._stream)
        if translation.stream is None:
            carried = whole.relay(call, self.attempt, upstream, self._settle)
        else:
            carried = streamed.relay(call, translation.stream, self.attempt, upstream, self._settle)
        self.task = asyncio.create_task(carried)
        await asyncio.sleep(0)
        return self

    def frame(self, kind: int, payload: bytes = b"") -> None:
        self._mux.receive(kind, self._stream.id, payload)

    def head(self, status: int = 200, **more: Any) -> None:
        self.frame(frames.HEAD, json.dumps({"status": status, "content_type": self._content_type, **more}).encode())

    def write(self, data: bytes) -> None:
        self.frame(frames.DATA, data)

    def event(self, value: object) -> None:
        self.write(event(value))

    def end(self) -> None:
        self.frame(frames.END, b"{}")

    async def until(self, probe: Callable[[], bool]) -> None:
        """Wait until the relay has come so far."""
        async with asyncio.timeout(2):
            while not probe():
                await asyncio.sleep(0.005)

    async def finish(self) -> None:
        """Wait for the relay's end; raises what it raises."""
        try:
            async with asyncio.timeout(3):
                await self.task
        finally:
            self.customer.exchange.stop_watching()

    async def _take(self, message: bytes, /) -> None:
        self.sent.append(frames.unpack(message))

    async def _settle(self) -> Settled:
        self.settled += 1
        return Settled("completed", 5, 0, 3, "claim", 1_500_000_000, 1)


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def delta(text: str | None, *, index: int = 0, reason: str | None = None, **more: Any) -> dict[str, Any]:
    inner = {} if text is None else {"content": text}
    return {"choices": [{"index": index, "delta": inner | more, "finish_reason": reason}]}
