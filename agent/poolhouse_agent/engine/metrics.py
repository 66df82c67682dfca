"""Reads what an engine counts: requests that run and wait, and tokens so far."""

import re
from dataclasses import dataclass
from typing import Self

import aiohttp

from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError

_TIMEOUT = aiohttp.ClientTimeout(total=10.0)
_MAX_BYTES = 4 << 20
_CACHE = "vllm:cache_config_info{"
_CACHE_TOKENS = re.compile(r'kv_cache_size_tokens="(\d{1,15})"')
_VERSION = re.compile(r'"version"\s*:\s*"([0-9A-Za-z.+-]{1,40})"')
_GAUGES = {"vllm:num_requests_running": "running", "vllm:num_requests_waiting": "waiting"}
_COUNTERS = {
    "vllm:prompt_tokens_total": "prompt_tokens_total",
    "vllm:generation_tokens_total": "generation_tokens_total",
    "vllm:prompt_tokens_cached_total": "cached_tokens_total",
    "vllm:num_preemptions_total": "preemptions_total",
}


@dataclass(frozen=True, slots=True)
class Load:
    """An engine's figures at one moment; `counters` is empty where the engine has none."""

    running: int
    waiting: int
    counters: dict[str, int]

    @property
    def progress(self) -> tuple[int, int]:
        """What moves whenever the engine gets on with its work."""
        return self.counters.get("prompt_tokens_total", 0), self.counters.get("generation_tokens_total", 0)

    @classmethod
    def unknown(cls, running: int) -> Self:
        """The load of a server without metrics."""
        return cls(running=running, waiting=0, counters={})


def parse(text: str) -> Load | None:
    """Read vLLM's metrics page, summed over engines; None where it has none of vLLM's names."""
    sums: dict[str, float] = {}
    names = {**_GAUGES, **_COUNTERS}
    for line in text.splitlines():
        if not line.startswith("vllm:"):
            continue
        name = names.get(line.partition("{")[0].partition(" ")[0])
        if name is not None:
            sums[name] = sums.get(name, 0.0) + _number(line.rpartition(" ")[2])
    if not sums:
        return None
    counters = {name: int(sums[name]) for name in _COUNTERS.values() if name in sums}
    return Load(running=int(sums.get("running", 0)), waiting=int(sums.get("waiting", 0)), counters=counters)


def _number(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        return 0.0
    return value if 0 <= value < 1 << 62 else 0.0


async def read(http: aiohttp.ClientSession, target: Target) -> Load:
    """Ask the engine. Raises EngineError `engine_unreachable` or `engine_timeout`."""
    try:
        async with http.get(target.base_url + "/metrics", headers=target.headers, timeout=_TIMEOUT) as response:
            content = await response.content.read(_MAX_BYTES)
            found = parse(content.decode("utf-8", "replace")) if response.status == 200 else None  # noqa: PLR2004
    except TimeoutError:
        raise EngineError("engine_timeout", "no answer from /metrics") from None
    except (aiohttp.ClientError, OSError) as error:
        raise EngineError("engine_unreachable", f"/metrics: {type(error).__name__}") from None
    return found or Load.unknown(target.running)


async def about(http: aiohttp.ClientSession, target: Target) -> dict[str, str | int]:
    """Return the engine's version, and how many tokens its cache holds, as far as it tells either."""
    found: dict[str, str | int] = {}
    version = await _text(http, target, "/version")
    if (named := _VERSION.search(version)) is not None:
        found["engine_version"] = named[1]
    cache = next((line for line in (await _text(http, target, "/metrics")).splitlines() if _CACHE in line), "")
    if (size := _CACHE_TOKENS.search(cache)) is not None:
        found["kv_cache_tokens"] = int(size[1])
    return found


async def _text(http: aiohttp.ClientSession, target: Target, path: str) -> str:
    """A page that not every server has; empty where it has none."""
    try:
        async with http.get(target.base_url + path, headers=target.headers, timeout=_TIMEOUT) as response:
            content = await response.content.read(_MAX_BYTES)
            return content.decode("utf-8", "replace") if response.status == 200 else ""  # noqa: PLR2004
    except (TimeoutError, aiohttp.ClientError, OSError):
        return ""
