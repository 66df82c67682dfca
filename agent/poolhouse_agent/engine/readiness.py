"""An engine is ready when it lists the model and answered every shape of request in time, and not before."""

import json
from dataclasses import dataclass
from typing import Any

import aiohttp

from poolhouse_agent.engine import shapes
from poolhouse_agent.engine.shapes import Shape
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError
from poolhouse_agent.protocol.messages import Desired

_LIST_S = 10.0
_MAX_BYTES = 1 << 20
_OK = 200
_NOT_FOUND = 404
_FEWEST_EVENTS = 2
FIRST_S = 120.0  # a shape that comes for the first time may compile


@dataclass(frozen=True, slots=True)
class Proof:
    """What the probe itself cost, to be taken off the engine's counters."""

    prompt_tokens: int
    completion_tokens: int

    def __add__(self, other: "Proof") -> "Proof":
        """Both together."""
        return Proof(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)


class RouteMissing(EngineError):
    """The engine has no such path: it serves a model of another task."""


async def listed_models(http: aiohttp.ClientSession, target: Target) -> dict[str, int | None]:
    """Return the served names with their context length. Raises EngineError."""
    content = await _content(http, "GET", target, "/v1/models", None, within_s=_LIST_S)
    entries = _object(content, "/v1/models").get("data")
    if not isinstance(entries, list):
        raise EngineError("engine_protocol", "/v1/models has no list")
    found: dict[str, int | None] = {}
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            length = entry.get("max_model_len")
            found[entry["id"]] = length if isinstance(length, int) else None
    return found


async def prove(http: aiohttp.ClientSession, target: Target, *, desired: Desired) -> Proof:
    """Require that the engine lists the model with the wanted context, and answers every shape of request.

    Each shape costs its first-time work here and not in a customer's request. Raises EngineError.
    """
    models = await listed_models(http, target)
    if target.served_name not in models:
        raise EngineError("served_model_mismatch", f"the engine serves {', '.join(sorted(models))[:200] or 'nothing'}")
    length = models[target.served_name]
    if length is not None and length < desired.context_tokens:
        raise EngineError(
            "context_does_not_fit", f"the engine takes {length} tokens, {desired.context_tokens} are wanted"
        )
    first, proof = await _first(http, target)
    for shape in shapes.beyond(first, desired):
        try:
            proof += await _ask(http, target, shape, FIRST_S)
        except EngineError as error:
            raise EngineError(error.code, f"{shape.name}: {error.detail}") from None
    return proof


async def generate(http: aiohttp.ClientSession, target: Target, *, timeout_s: float = FIRST_S) -> Proof:
    """Generate one token, or one vector where the engine serves embeddings. Raises EngineError."""
    return (await _first(http, target, timeout_s=timeout_s))[1]


async def _first(http: aiohttp.ClientSession, target: Target, *, timeout_s: float = FIRST_S) -> tuple[Shape, Proof]:
    """Ask in the shape that tells which task the model serves."""
    try:
        return shapes.CHAT, await _ask(http, target, shapes.CHAT, timeout_s)
    except RouteMissing:
        return shapes.VECTOR, await _ask(http, target, shapes.VECTOR, timeout_s)


async def _ask(http: aiohttp.ClientSession, target: Target, shape: Shape, timeout_s: float) -> Proof:
    body = {"model": target.served_name, **shape.body}
    content = await _content(http, "POST", target, shape.path, body, within_s=timeout_s)
    answer = _last_event(content, shape.path) if shape.is_stream else _object(content, shape.path)
    _require_made(answer, shape)
    return _proof(answer)


def _require_made(answer: dict[str, Any], shape: Shape) -> None:
    """Something was generated: choices (in a stream: counted tokens), or as many vectors as texts."""
    if shape.path == shapes.VECTOR_PATH:
        rows, texts = answer.get("data"), shape.body["input"]
        wanted = len(texts) if isinstance(texts, list) else 1
        if not isinstance(rows, list) or len(rows) != wanted or not all(_has_vector(row) for row in rows):
            raise EngineError("engine_protocol", "an embedding without a vector")
    elif shape.is_stream:
        if not _proof(answer).completion_tokens:
            raise EngineError("engine_protocol", "a stream without a token")
    elif not isinstance(answer.get("choices"), list) or not answer["choices"]:
        raise EngineError("engine_protocol", "a generation without choices")


def _has_vector(row: Any) -> bool:
    return isinstance(row, dict) and bool(row.get("embedding"))


def _last_event(content: bytes, path: str) -> dict[str, Any]:
    """The last event before the end of a whole stream, which has the usage."""
    lines = [line[6:] for line in content.split(b"\n") if line.startswith(b"data: ")]
    if len(lines) < _FEWEST_EVENTS or lines[-1].strip() != b"[DONE]":
        raise EngineError("engine_protocol", f"{path} did not end its stream")
    return _object(lines[-2], path)


def _proof(answer: dict[str, Any]) -> Proof:
    usage = answer.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Proof(_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


async def _content(
    http: aiohttp.ClientSession,
    method: str,
    target: Target,
    path: str,
    body: dict[str, Any] | None,
    *,
    within_s: float,
) -> bytes:
    timeout = aiohttp.ClientTimeout(total=within_s)
    try:
        async with http.request(
            method, target.base_url + path, json=body, headers=target.headers, timeout=timeout
        ) as response:
            content = await response.content.read(_MAX_BYTES) if body is None else await _all(response)
            status = response.status
    except TimeoutError:
        raise EngineError("engine_timeout", f"no answer from {path} within {within_s:.0f} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EngineError("engine_unreachable", f"{path}: {type(error).__name__}") from None
    if status == _NOT_FOUND:
        raise RouteMissing("probe_failed", f"{path} answered {status}")
    if status != _OK:
        raise EngineError("probe_failed", f"{path} answered {status}")
    return content


async def _all(response: aiohttp.ClientResponse) -> bytes:
    """The whole body, as far as a bound. Raises EngineError."""
    parts, size = [], 0
    async for part in response.content.iter_any():
        parts.append(part)
        size += len(part)
        if size > _MAX_BYTES:
            raise EngineError("engine_protocol", "an answer without an end")
    return b"".join(parts)


def _object(content: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise EngineError("engine_protocol", f"{path} did not answer JSON") from None
    if not isinstance(value, dict):
        raise EngineError("engine_protocol", f"{path} did not answer an object")
    return value
