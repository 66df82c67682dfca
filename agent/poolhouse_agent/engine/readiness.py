"""An engine is ready when it lists the model and a real request was answered in time, and not before."""

import json
from dataclasses import dataclass
from typing import Any

import aiohttp

from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError

_LIST_S = 10.0
_MAX_BYTES = 1 << 20
_OK = 200
_NOT_FOUND = 404
GENERATION_S = 60.0


@dataclass(frozen=True, slots=True)
class Proof:
    """What the probe itself cost, to be taken off the engine's counters."""

    prompt_tokens: int
    completion_tokens: int


class RouteMissing(EngineError):
    """The engine has no such path: it serves a model of another task."""


async def listed_models(http: aiohttp.ClientSession, target: Target) -> dict[str, int | None]:
    """Return the served names with their context length. Raises EngineError."""
    body = await _json(http, "GET", target, "/v1/models", None, within_s=_LIST_S)
    entries = body.get("data")
    if not isinstance(entries, list):
        raise EngineError("engine_protocol", "/v1/models has no list")
    found: dict[str, int | None] = {}
    for entry in entries:
        if isinstance(entry, dict) and isinstance(entry.get("id"), str):
            length = entry.get("max_model_len")
            found[entry["id"]] = length if isinstance(length, int) else None
    return found


async def prove(http: aiohttp.ClientSession, target: Target, *, context_tokens: int) -> Proof:
    """Require that the engine lists the model with the wanted context and generates. Raises EngineError."""
    models = await listed_models(http, target)
    if target.served_name not in models:
        raise EngineError("served_model_mismatch", f"the engine serves {', '.join(sorted(models))[:200] or 'nothing'}")
    length = models[target.served_name]
    if length is not None and length < context_tokens:
        raise EngineError("context_does_not_fit", f"the engine takes {length} tokens, {context_tokens} are wanted")
    return await generate(http, target)


async def generate(http: aiohttp.ClientSession, target: Target, *, timeout_s: float = GENERATION_S) -> Proof:
    """Generate one token, or one vector where the engine serves embeddings. Raises EngineError."""
    try:
        return await _say(http, target, timeout_s)
    except RouteMissing:
        return await _embed(http, target, timeout_s)


async def _say(http: aiohttp.ClientSession, target: Target, timeout_s: float) -> Proof:
    body = {
        "model": target.served_name,
        "messages": [{"role": "user", "content": "ping"}],
        "max_tokens": 1,
        "temperature": 0,
    }
    answer = await _json(http, "POST", target, "/v1/chat/completions", body, within_s=timeout_s)
    choices = answer.get("choices")
    if not isinstance(choices, list) or not choices:
        raise EngineError("engine_protocol", "a generation without choices")
    return _proof(answer)


async def _embed(http: aiohttp.ClientSession, target: Target, timeout_s: float) -> Proof:
    body = {"model": target.served_name, "input": "ping"}
    answer = await _json(http, "POST", target, "/v1/embeddings", body, within_s=timeout_s)
    rows = answer.get("data")
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], dict) or not rows[0].get("embedding"):
        raise EngineError("engine_protocol", "an embedding without a vector")
    return _proof(answer)


def _proof(answer: dict[str, Any]) -> Proof:
    usage = answer.get("usage")
    counts = usage if isinstance(usage, dict) else {}
    return Proof(_count(counts.get("prompt_tokens")), _count(counts.get("completion_tokens")))


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


async def _json(
    http: aiohttp.ClientSession,
    method: str,
    target: Target,
    path: str,
    body: dict[str, Any] | None,
    *,
    within_s: float,
) -> dict[str, Any]:
    timeout = aiohttp.ClientTimeout(total=within_s)
    try:
        async with http.request(
            method, target.base_url + path, json=body, headers=target.headers, timeout=timeout
        ) as response:
            content = await response.content.read(_MAX_BYTES)
            status = response.status
    except TimeoutError:
        raise EngineError("engine_timeout", f"no answer from {path} within {within_s:.0f} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EngineError("engine_unreachable", f"{path}: {type(error).__name__}") from None
    if status == _NOT_FOUND:
        raise RouteMissing("probe_failed", f"{path} answered {status}")
    if status != _OK:
        raise EngineError("probe_failed", f"{path} answered {status}")
    return _object(content, path)


def _object(content: bytes, path: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise EngineError("engine_protocol", f"{path} did not answer JSON") from None
    if not isinstance(value, dict):
        raise EngineError("engine_protocol", f"{path} did not answer an object")
    return value
