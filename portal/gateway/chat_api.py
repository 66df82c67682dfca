"""POST /v1/chat/completions: admission in its fixed order, then dispatch."""

import hashlib
import hmac
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from portal.core import clock
from portal.gateway import auth, bounds, dispatch, models_api, strict_json
from portal.gateway.bounds import Bound, PromptMeasure
from portal.gateway.contracts import KeyEntry, ModelEntry, PriceEntry, RequestFacts, Snapshot
from portal.gateway.errors import invalid
from portal.gateway.exchange import Exchange
from portal.gateway.fields import chat
from portal.gateway.limits import KeyLimiter, Slot
from portal.gateway.relay.calls import Call
from portal.gateway.routing import affinity_key

_SALT_CHARS: Final = 32
_KEPT_SALTS: Final = 10_000
_STREAM_OPTIONS: Final = {"include_usage": True, "continuous_usage_stats": True}


@dataclass(frozen=True, slots=True)
class _Terms:
    """Who asks for what at which price, and how much it can be at most."""

    key: KeyEntry
    model: ModelEntry
    price: PriceEntry
    bound: Bound


@dataclass(frozen=True, slots=True)
class ChatApi:
    """The endpoint with what it needs of the process."""

    parts: dispatch.Parts
    limiter: KeyLimiter
    measure: PromptMeasure
    salt_key: bytes
    currency: str
    salts: dict[str, str] = field(default_factory=dict)

    async def serve(self, exchange: Exchange, snapshot: Snapshot) -> None:
        """Admit the request and answer it. Raises ApiError."""
        now = clock.now()
        key = auth.authenticate(exchange, snapshot, now=now.timestamp())
        raw = strict_json.parse_object(await exchange.read_body())
        model, price = _model(raw.get("model"), snapshot, now=now.timestamp())
        request = chat.check(raw, model)
        slot = self.limiter.enter(key.id, now=time.monotonic())
        call: Call | None = None
        try:
            bound = await bounds.of_chat(request, model=model, measure=self.measure)
            self.limiter.reserve(slot, bound.prompt_tokens + bound.output_tokens)
            facts = self._facts(exchange, request, _Terms(key, model, price, bound), now=now)
            call = self._call(exchange, facts, request, slot)
            hold = await self.parts.credit.place(key=key, nano=facts.hold_nano, now=now)
            exchange.watch()
            await dispatch.serve(call, self.parts, snapshot, hold)
        finally:
            exchange.stop_watching()
            self.limiter.leave(slot, used_tokens=call.used_tokens if call is not None else 0)

    def _facts(self, exchange: Exchange, request: chat.ChatRequest, terms: "_Terms", *, now: datetime) -> RequestFacts:
        return RequestFacts(
            request_id=exchange.request_id,
            client_request_id=exchange.client_request_id,
            key=terms.key,
            model=terms.model,
            price=terms.price,
            endpoint="chat/completions",
            is_stream=request.is_stream,
            body=self._node_body(request, terms.key),
            prompt_bound_tokens=terms.bound.prompt_tokens,
            output_bound_tokens=terms.bound.output_tokens,
            hold_nano=terms.bound.nano(terms.price),
            opened_at=now.timestamp(),
        )

    def _node_body(self, request: chat.ChatRequest, key: KeyEntry) -> dict[str, Any]:
        body = dict(request.body)
        if request.is_stream:
            body["stream"] = True
            body["stream_options"] = _STREAM_OPTIONS
        body["cache_salt"] = self._salt(key.organization)
        return body

    def _salt(self, organization: str) -> str:
        """Return what keeps tenants out of each other's prefix caches; the same on every process."""
        known = self.salts.get(organization)
        if known is None:
            if len(self.salts) >= _KEPT_SALTS:
                self.salts.clear()
            digest = hmac.new(self.salt_key, organization.encode(), hashlib.sha256).hexdigest()
            known = self.salts[organization] = digest[:_SALT_CHARS]
        return known

    def _call(self, exchange: Exchange, facts: RequestFacts, request: chat.ChatRequest, slot: Slot) -> Call:
        return Call(
            exchange=exchange,
            facts=facts,
            chat=request,
            slot=slot,
            currency=self.currency,
            affinity=affinity_key(facts.key, request.conversation.messages),
        )


def _model(name: object, snapshot: Snapshot, *, now: float) -> tuple[ModelEntry, PriceEntry]:
    if name is None:
        raise invalid("model is missing.", param="model")
    if not isinstance(name, str):
        raise invalid("model must be a string.", param="model")
    return models_api.find(name, snapshot, now=now)
