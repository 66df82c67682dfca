"""One timed request to an engine: when the first token came, how the others followed, what it counted."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError

_OK = 200
_BUSY = frozenset({429, 503})
_MOST_LINE = 1 << 20
REQUEST_S = 120.0


class EngineBusy(EngineError):
    """The engine takes no more requests at once."""


@dataclass(slots=True)
class Answered:
    """What one request took: seconds to the first token, the gaps after it, and the engine's own counts."""

    first_s: float = 0.0
    gaps_s: list[float] = field(default_factory=list)
    prompt_tokens: int = 0
    completion_tokens: int = 0
    began_at: float = 0.0
    ended_at: float = 0.0

    @property
    def decode_s(self) -> float:
        """Seconds from the first token to the last."""
        return sum(self.gaps_s)

    @property
    def inter_token_s(self) -> float:
        """The mean time between tokens; an event may carry several."""
        return self.decode_s / max(1, self.completion_tokens - 1)


async def ask(
    http: aiohttp.ClientSession, target: Target, prompt: str, *, tokens: int, within_s: float = REQUEST_S
) -> Answered:
    """Stream one chat of `tokens` tokens. Raises EngineError."""
    body = {
        "model": target.served_name, "messages": [{"role": "user", "content": prompt}], "max_tokens": tokens,
        "min_tokens": tokens, "ignore_eos": True, "temperature": 0, "stream": True,
        "stream_options": {"include_usage": True},
    }  # fmt: skip
    try:
        async with (
            asyncio.timeout(within_s),
            http.post(target.base_url + "/v1/chat/completions", json=body, headers=target.headers) as response,
        ):
            if response.status in _BUSY:
                raise EngineBusy("engine_busy", f"answered {response.status}")
            if response.status != _OK:
                raise EngineError("probe_failed", f"a streamed chat was answered {response.status}")
            return await _read(response)
    except TimeoutError:
        raise EngineError("engine_timeout", f"no end within {within_s:.0f} s") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EngineError("engine_unreachable", type(error).__name__) from None


async def _read(response: aiohttp.ClientResponse) -> Answered:
    loop = asyncio.get_running_loop()
    answered = Answered(began_at=loop.time())
    last = 0.0
    async for event in _events(response):
        now = loop.time()
        if _has_text(event):
            if last:
                answered.gaps_s.append(now - last)
            else:
                answered.first_s = now - answered.began_at
            last = now
        _count(answered, event.get("usage"))
    answered.ended_at = loop.time()
    if not last or not answered.completion_tokens:
        raise EngineError("engine_protocol", "a streamed chat without a token or without usage")
    return answered


async def _events(response: aiohttp.ClientResponse) -> AsyncIterator[dict[str, Any]]:
    rest = b""
    async for part in response.content.iter_any():
        *lines, rest = (rest + part).split(b"\n")
        if len(rest) > _MOST_LINE:
            raise EngineError("engine_protocol", "a line without an end")
        for line in lines:
            if line.startswith(b"data: {"):
                yield _event(line[6:])


def _event(text: bytes) -> dict[str, Any]:
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        raise EngineError("engine_protocol", "an event that is no JSON") from None
    if not isinstance(event, dict) or "error" in event:
        raise EngineError("probe_failed", "an error within the stream")
    return event


def _has_text(event: dict[str, Any]) -> bool:
    choices = event.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return False
    delta = choices[0].get("delta")
    return isinstance(delta, dict) and any(delta.get(name) for name in ("content", "reasoning", "reasoning_content"))


def _count(answered: Answered, usage: Any) -> None:
    if not isinstance(usage, dict):
        return
    for name in ("prompt_tokens", "completion_tokens"):
        value = usage.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
            setattr(answered, name, value)
