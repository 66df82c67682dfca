"""Rate and concurrency of each key, as this process sees it."""

import asyncio
from dataclasses import dataclass
from typing import Final

from portal.gateway.config import GatewayConfig
from portal.gateway.errors import RATE_LIMIT, ApiError

_MINUTE_S: Final = 60.0
_IDLE_AFTER_S: Final = 300.0
_SWEEP_ABOVE: Final = 10_000
_PARALLEL_RETRY_S: Final = 1.0


class _Bucket:
    """A bucket that refills evenly and holds one minute's worth."""

    __slots__ = ("at", "level", "size")

    def __init__(self, size: int, now: float) -> None:
        self.size = size
        self.level = float(size)
        self.at = now

    def refill(self, now: float) -> None:
        self.level = min(self.size, self.level + (now - self.at) * self.size / _MINUTE_S)
        self.at = now

    def wait_s(self, wanted: float) -> float:
        return max(0.0, (min(wanted, self.size) - self.level) * _MINUTE_S / self.size)

    def reset_s(self) -> float:
        return (self.size - self.level) * _MINUTE_S / self.size


class _KeyLimits:
    __slots__ = ("requests", "running", "tokens")

    def __init__(self, config: GatewayConfig, now: float) -> None:
        self.requests = _Bucket(config.key_requests_per_minute, now)
        self.tokens = _Bucket(config.key_tokens_per_minute, now)
        self.running = 0


@dataclass(slots=True)
class Slot:
    """One admitted request's place; given back exactly once."""

    key_id: int
    tokens: int
    headers: tuple[tuple[bytes, bytes], ...]
    is_open: bool = True


class KeyLimiter:
    """Admits requests of keys. `now` is a monotonic clock in seconds."""

    def __init__(self, config: GatewayConfig) -> None:
        self._config = config
        self._keys: dict[int, _KeyLimits] = {}
        self.running = 0
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    async def until_idle(self) -> None:
        """Return once no admitted request runs; the caller sets the deadline."""
        await self._is_idle.wait()

    def enter(self, key_id: int, *, now: float) -> Slot:
        """Take one request's place. Raises ApiError rate_limit_exceeded or too_many_parallel_requests."""
        limits = self._keys.get(key_id)
        if limits is None:
            self._sweep(now)
            limits = self._keys[key_id] = _KeyLimits(self._config, now)
        limits.requests.refill(now)
        limits.tokens.refill(now)
        if limits.running >= self._config.key_concurrency:
            message = f"This key runs {limits.running} requests already; wait for one to end."
            raise ApiError(429, RATE_LIMIT, "too_many_parallel_requests", message, retry_after_s=_PARALLEL_RETRY_S)
        wait_s = limits.requests.wait_s(1)
        if wait_s:
            raise _too_fast(f"{limits.requests.size} requests", wait_s)
        limits.requests.level -= 1
        limits.running += 1
        self.running += 1
        self._is_idle.clear()
        return Slot(key_id=key_id, tokens=0, headers=_headers(limits))

    def reserve(self, slot: Slot, tokens: int) -> None:
        """Take the bound's tokens. Raises ApiError rate_limit_exceeded."""
        limits = self._keys[slot.key_id]
        wait_s = limits.tokens.wait_s(tokens)
        if wait_s:
            raise _too_fast(f"{limits.tokens.size} tokens", wait_s)
        limits.tokens.level -= tokens
        slot.tokens = tokens
        slot.headers = _headers(limits)

    def leave(self, slot: Slot, *, used_tokens: int) -> None:
        """Give the place back, and the tokens that were not used. Safe to call twice."""
        if not slot.is_open:
            return
        slot.is_open = False
        limits = self._keys[slot.key_id]
        limits.running -= 1
        self.running -= 1
        if not self.running:
            self._is_idle.set()
        limits.tokens.level = min(limits.tokens.size, limits.tokens.level + max(0, slot.tokens - used_tokens))

    def _sweep(self, now: float) -> None:
        if len(self._keys) < _SWEEP_ABOVE:
            return
        idle = [
            key_id
            for key_id, limits in self._keys.items()
            if not limits.running and now - limits.requests.at > _IDLE_AFTER_S
        ]
        for key_id in idle:
            del self._keys[key_id]


def _too_fast(limit: str, wait_s: float) -> ApiError:
    message = f"This key is limited to {limit} a minute; retry in {wait_s:.2f} s."
    return ApiError(429, RATE_LIMIT, "rate_limit_exceeded", message, retry_after_s=wait_s)


def _headers(limits: _KeyLimits) -> tuple[tuple[bytes, bytes], ...]:
    requests, tokens = limits.requests, limits.tokens
    return (
        (b"x-ratelimit-limit-requests", b"%d" % requests.size),
        (b"x-ratelimit-remaining-requests", b"%d" % max(0, requests.level)),
        (b"x-ratelimit-reset-requests", duration(requests.reset_s())),
        (b"x-ratelimit-limit-tokens", b"%d" % tokens.size),
        (b"x-ratelimit-remaining-tokens", b"%d" % max(0, tokens.level)),
        (b"x-ratelimit-reset-tokens", duration(tokens.reset_s())),
    )


def duration(seconds: float) -> bytes:
    """Return a duration as OpenAI writes it: `12ms`, `1.5s`, `6m0s`."""
    if seconds < 1:
        return b"%dms" % round(seconds * 1000)
    if seconds < _MINUTE_S:
        return f"{seconds:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    minutes, rest = divmod(round(seconds), 60)
    return b"%dm%ds" % (minutes, rest)
