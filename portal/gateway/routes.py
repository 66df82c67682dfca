"""Which path is served by what; every refusal leaves as an answer of the error table."""

import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from django.db import DatabaseError

from portal.core import clock
from portal.core.errors import DomainError
from portal.gateway import errors, health, key_api, metrics_api, models_api, requests_api
from portal.gateway.contracts import Snapshot
from portal.gateway.endpoints.base import Endpoint
from portal.gateway.endpoints.chat import ChatEndpoint
from portal.gateway.endpoints.completions import CompletionsEndpoint
from portal.gateway.endpoints.embeddings import EmbeddingsEndpoint
from portal.gateway.endpoints.messages import MessagesEndpoint
from portal.gateway.endpoints.responses import ResponsesEndpoint
from portal.gateway.errors import INVALID_REQUEST, ApiError
from portal.gateway.exchange import CustomerGone, Exchange, check_headers
from portal.gateway.process import GatewayProcess
from portal.gateway.unmetered import count_tokens, tokenize

log = logging.getLogger(__name__)
T = TypeVar("T")

_MODELS: Final = "/v1/models"
_REQUESTS: Final = "/v1/requests/"
_KEY: Final = "/v1/key"
_METERED: Final[Mapping[str, Endpoint]] = {
    "/v1/chat/completions": ChatEndpoint(),
    "/v1/completions": CompletionsEndpoint(),
    "/v1/embeddings": EmbeddingsEndpoint(),
    "/v1/messages": MessagesEndpoint(),
    "/v1/responses": ResponsesEndpoint(),
}
_METRICS: Final = "/metrics"
_NAMED: Final = frozenset({*_METERED, count_tokens.PATH, tokenize.PATH, _MODELS, _KEY, _METRICS, "/healthz", "/readyz"})
_UNHANDLED: Final = "gateway.request_failed"


async def serve(
    process: GatewayProcess,
    scope: dict[str, Any],
    receive: Callable[[], Coroutine[Any, Any, dict[str, Any]]],
    send: Callable[[dict[str, Any]], Coroutine[Any, Any, None]],
) -> None:
    """Answer one HTTP request."""
    exchange = Exchange(scope, receive, send)
    try:
        check_headers(scope["headers"])
        await _route(process, exchange)
    except CustomerGone:
        if exchange.cut_by is not None:
            await _refuse(exchange, exchange.cut_by)
    except ApiError as error:
        await _refuse(exchange, error)
    except DomainError as error:
        answer = errors.from_domain(error)
        if answer.status == 500:  # noqa: PLR2004  an HTTP status
            log.exception(_UNHANDLED, extra={"request": str(exchange.request_id), "code": error.code})
        await _refuse(exchange, answer)
    except Exception:  # the main loop of a request: whatever happens is logged and answered
        log.exception(_UNHANDLED, extra={"request": str(exchange.request_id)})
        await _refuse(exchange, errors.internal())
    finally:
        process.seeing.answered(exchange, path=_known(exchange.path))


def _known(path: str) -> str | None:
    """Return the path as figures name it: without ids, and None for one that is not here."""
    if path in _NAMED:
        return path
    return next((prefix + "{id}" for prefix in (_MODELS + "/", _REQUESTS) if path.startswith(prefix)), None)


async def _refuse(exchange: Exchange, error: ApiError) -> None:
    try:
        if exchange.has_started:
            await exchange.end_in_band(error)
        else:
            await exchange.refuse(error)
    except CustomerGone:
        return


async def _route(process: GatewayProcess, exchange: Exchange) -> None:
    path = exchange.path
    endpoint = _METERED.get(path)
    if endpoint is not None:
        exchange.speaks(endpoint.wording(exchange.request_id), endpoint.headers(exchange.request_id))
        _require_method(exchange, "POST")
        await process.admission.serve(endpoint, exchange, _snapshot(process))
    elif path == count_tokens.PATH:
        await _count_tokens(process, exchange)
    elif path == tokenize.PATH:
        await _tokenize(process, exchange)
    elif path == _MODELS or path.startswith(_MODELS + "/"):
        _require_method(exchange, "GET")
        await _models(process, exchange)
    elif path.startswith(_REQUESTS):
        _require_method(exchange, "GET")
        await _request(process, exchange)
    elif path == _KEY:
        _require_method(exchange, "GET")
        await _key(process, exchange)
    elif path in {"/healthz", "/readyz"}:
        await _health(process, exchange)
    elif path == _METRICS:
        _require_method(exchange, "GET")
        await metrics_api.serve(exchange, process.seeing, process.threads, token=process.metrics_token)
    else:
        raise ApiError(404, INVALID_REQUEST, "not_found", f"There is no {path[:96]} here.")


def _require_method(exchange: Exchange, method: str) -> None:
    if exchange.method != method:
        raise ApiError(405, INVALID_REQUEST, "method_not_allowed", f"Use {method} for {exchange.path[:96]}.")


def _snapshot(process: GatewayProcess) -> Snapshot:
    if process.is_draining:
        raise errors.unavailable("draining", "This gateway process is restarting; retry.", retry_after_s=1.0)
    if process.store.is_stale(time.monotonic()):
        message = "Keys and prices cannot be checked now; retry."
        raise errors.unavailable("billing_unavailable", message, retry_after_s=2.0)
    return process.store.current


async def _count_tokens(process: GatewayProcess, exchange: Exchange) -> None:
    count_tokens.speak(exchange)
    _require_method(exchange, "POST")
    await count_tokens.serve(process.admission, exchange, _snapshot(process))


async def _tokenize(process: GatewayProcess, exchange: Exchange) -> None:
    _require_method(exchange, "POST")
    await tokenize.serve(process.admission, process.settlement.measure, exchange, _snapshot(process))


async def _models(process: GatewayProcess, exchange: Exchange) -> None:
    now = clock.now().timestamp()
    snapshot = _snapshot(process)
    key = process.door.admit(exchange, snapshot, now=now)
    wanted = exchange.path[len(_MODELS) + 1 :]
    if wanted:
        await exchange.answer(200, models_api.single(wanted, snapshot, key, now=now))
    else:
        await exchange.answer(200, models_api.listing(snapshot, key, now=now))


async def _request(process: GatewayProcess, exchange: Exchange) -> None:
    key = process.door.admit(exchange, _snapshot(process), now=clock.now().timestamp())
    text = exchange.path[len(_REQUESTS) :]
    record = await _read(
        process,
        requests_api.record,
        organization_id=key.organization_id,
        request_id=requests_api.parse_id(text),
        currency=process.currency,
    )
    if record is None:
        raise requests_api.not_found(text)
    await exchange.answer(200, record)


async def _key(process: GatewayProcess, exchange: Exchange) -> None:
    now = clock.now()
    key = process.door.admit(exchange, _snapshot(process), now=now.timestamp())
    limits = key_api.limits_of(await process.limiter.standing(key), now=time.monotonic())
    described = await _read(process, key_api.describe, key=key, limits=limits, currency=process.currency, now=now)
    await exchange.answer(200, described)


async def _read(process: GatewayProcess, function: Callable[..., T], **arguments: object) -> T:
    try:
        return await process.threads.run(partial(function, **arguments))
    except (DatabaseError, TimeoutError) as error:
        raise errors.unavailable("billing_unavailable", "The records cannot be read now; retry.") from error


async def _health(process: GatewayProcess, exchange: Exchange) -> None:
    if exchange.path == "/healthz":
        await exchange.answer(200, {"alive": True})
        return
    status, body = health.readiness(process, now=time.monotonic())
    await exchange.answer(status, body)
