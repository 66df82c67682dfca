"""The one way in for every request that costs something: each step in its fixed order, then dispatch."""

import hashlib
import hmac
import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from portal.core import clock
from portal.core.records import record
from portal.gateway import affinity, bounds, dispatch, model_card, models_api, policy, strict_json
from portal.gateway.auth import Door
from portal.gateway.bounds import Bound, PromptMeasure
from portal.gateway.candidates import possible_prices, usual_price
from portal.gateway.contracts import KeyEntry, ModelEntry, PriceEntry, RequestFacts, Snapshot
from portal.gateway.coverage import held_first
from portal.gateway.dialects.base import Stamp
from portal.gateway.endpoints.base import Endpoint, Translation
from portal.gateway.errors import INVALID_REQUEST, ApiError, Headers, invalid
from portal.gateway.exchange import Exchange
from portal.gateway.fields.asked import Asked
from portal.gateway.limits import Limiter, LimitReached, Slot
from portal.gateway.relay.calls import Call

_SALT_CHARS: Final = 32
_KEPT_SALTS: Final = 10_000
_STREAM_OPTIONS: Final = {"include_usage": True, "continuous_usage_stats": True}


@record(frozen=True, slots=True)
class Terms:
    """Who asks for which model at which price, and when; `prices` are all that the request may be routed at."""

    key: KeyEntry
    model: ModelEntry
    price: PriceEntry
    now: datetime
    prices: list[PriceEntry]
    session: str | None


@dataclass(frozen=True, slots=True)
class Admission:
    """The funnel with what it needs of the process."""

    door: Door
    parts: dispatch.Parts
    limiter: Limiter
    measure: PromptMeasure
    salt_key: bytes
    currency: str
    salts: dict[str, str] = field(default_factory=dict)
    running: set[Exchange] = field(default_factory=set)

    async def serve(self, endpoint: Endpoint, exchange: Exchange, snapshot: Snapshot) -> None:
        """Admit the request and answer it in the endpoint's words. Raises ApiError."""
        now = clock.now()
        key = self.door.admit(exchange, snapshot, now=now.timestamp())
        raw = strict_json.parse_object(await exchange.read_body())
        at = now.timestamp()
        model, public = find_model(raw, snapshot, task=endpoint.task, now=at)
        price = usual_price(public, key=key, model=model, snapshot=snapshot, at=at)
        stamp = Stamp(exchange.request_id, int(now.timestamp()), self.currency)
        translation = endpoint.translate(raw, model, stamp)
        exchange.wording = translation.dialect
        policy.require(key, model=model, has_tools=translation.asked.has_tools)
        prices = possible_prices(key=key, model=model, usual=price, snapshot=snapshot, at=at)
        session = affinity.session_of(exchange.headers, raw)
        terms = Terms(key, model, price, now, prices, session)
        await self._admitted(exchange, endpoint, translation, terms, snapshot)

    async def _admitted(
        self, exchange: Exchange, endpoint: Endpoint, translation: Translation, terms: Terms, snapshot: Snapshot
    ) -> None:
        asked = translation.asked
        slot = await self.enter(exchange, terms.key)
        call: Call | None = None
        try:
            exchange.promise(slot.headers)
            bound = await bounds.of(asked, model=terms.model, measure=self.measure)
            await self.limiter.reserve(slot, bound.prompt_tokens + bound.output_tokens)
            told = (*slot.headers(), *_ignored(asked))  # what is left beside this request, whenever its answer begins
            exchange.promise(lambda: told)
            call = self._call(exchange, endpoint, translation, self._facts(exchange, endpoint, asked, terms, bound))
            if terms.session is not None:
                call.affinity, call.is_session = affinity.session_key(terms.key, terms.session), True
            hold = await self.parts.credit.place(key=terms.key, nano=call.facts.hold_nano, now=terms.now)
            exchange.watch()
            self.running.add(exchange)
            await dispatch.serve(call, self.parts, snapshot, hold)
        finally:
            self.running.discard(exchange)
            exchange.stop_watching()
            self.limiter.leave(slot, used_tokens=call.used_tokens if call is not None else 0)

    async def enter(self, exchange: Exchange, key: KeyEntry) -> Slot:
        """Take the key's place; a refusal carries the limits as well. Raises ApiError."""
        try:
            return await self.limiter.enter(key, now=time.monotonic())
        except LimitReached as refusal:
            limits = refusal.limits
            exchange.promise(lambda: limits)
            raise

    def _facts(self, exchange: Exchange, endpoint: Endpoint, asked: Asked, terms: Terms, bound: Bound) -> RequestFacts:
        first = held_first(bound, choices=asked.choices, is_stream=asked.is_stream)
        return RequestFacts(
            request_id=exchange.request_id,
            client_request_id=exchange.client_request_id,
            key=terms.key,
            model=terms.model,
            price=terms.price,
            endpoint=exchange.path.removeprefix("/v1/"),
            node_path=endpoint.node_path,
            is_stream=asked.is_stream,
            body=self._node_body(asked, terms.key),
            prompt_bound_tokens=bound.prompt_tokens,
            output_bound_tokens=bound.output_tokens,
            hold_nano=max(first.nano(price) for price in terms.prices),
            choices=asked.choices,
            opened_at=terms.now.timestamp(),
        )

    def _node_body(self, asked: Asked, key: KeyEntry) -> dict[str, Any]:
        body = dict(asked.body)
        if asked.is_stream:
            body["stream"] = True
            body["stream_options"] = _STREAM_OPTIONS
        if asked.is_cached:
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

    def _call(self, exchange: Exchange, endpoint: Endpoint, translation: Translation, facts: RequestFacts) -> Call:
        return Call(
            exchange=exchange,
            facts=facts,
            asked=translation.asked,
            names=translation.names,
            dialect=translation.dialect,
            stream=translation.stream,
            reader=endpoint.reader,
            affinity=affinity.affinity_key(facts.key, translation.asked.opening),
        )


def find_model(raw: dict[str, Any], snapshot: Snapshot, *, task: str, now: float) -> tuple[ModelEntry, PriceEntry]:
    """Return the model of this task that the request names, and its price. Raises ApiError."""
    model, price = named_model(raw, snapshot, now=now)
    if model.task != task:
        raise _other_task(model)
    return model, price


def named_model(raw: dict[str, Any], snapshot: Snapshot, *, now: float) -> tuple[ModelEntry, PriceEntry]:
    """Return the model that the request names, whatever it is for, and its price. Raises ApiError."""
    name = raw.get("model")
    if name is None:
        raise invalid("model is missing.", param="model")
    if not isinstance(name, str):
        raise invalid("model must be a string.", param="model")
    return models_api.find(name, snapshot, now=now)


def _other_task(model: ModelEntry) -> ApiError:
    message = f"{model.public_id!r} is not for this endpoint: it is served at {model_card.endpoints_text(model)}."
    return ApiError(404, INVALID_REQUEST, "model_not_found", message, param="model")


def _ignored(asked: Asked) -> Headers:
    return ((b"x-pool-ignored-fields", ignored_names(asked.ignored)),) if asked.ignored else ()


def ignored_names(names: tuple[str, ...]) -> bytes:
    """Return field names as a header: printable ASCII, bounded."""
    safe = ["".join(c for c in name if c.isascii() and (c.isalnum() or c in "._-"))[:64] for name in names[:32]]
    return ", ".join(name for name in safe if name).encode()
