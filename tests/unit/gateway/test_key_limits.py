"""Rate and concurrency of a key within one process."""

from pathlib import Path

import pytest

from portal.gateway.config import GatewayConfig
from portal.gateway.errors import ApiError
from portal.gateway.limits import KeyLimiter, duration


def _limiter(requests: int = 60, tokens: int = 6_000, concurrency: int = 2) -> KeyLimiter:
    return KeyLimiter(
        GatewayConfig(
            index=0,
            process="gateway@0.host",
            spool_dir=Path("/nowhere"),
            peer_dir=Path("/nowhere"),
            key_requests_per_minute=requests,
            key_tokens_per_minute=tokens,
            key_concurrency=concurrency,
            drain_s=0,
        )
    )


def test_parallel_requests_are_capped_and_places_come_back_once() -> None:
    limiter = _limiter()
    first, _second = limiter.enter(1, now=0.0), limiter.enter(1, now=0.0)

    with pytest.raises(ApiError) as refusal:
        limiter.enter(1, now=0.0)
    assert (refusal.value.status, refusal.value.code) == (429, "too_many_parallel_requests")
    assert dict(refusal.value.headers)[b"retry-after"] == b"1"

    limiter.leave(first, used_tokens=0)
    limiter.leave(first, used_tokens=0)
    limiter.enter(1, now=0.0)
    with pytest.raises(ApiError):
        limiter.enter(1, now=0.0)
    assert limiter.enter(2, now=0.0).is_open


def test_requests_refill_evenly() -> None:
    limiter = _limiter(requests=2, concurrency=10)
    limiter.enter(1, now=0.0)
    limiter.enter(1, now=0.0)

    with pytest.raises(ApiError) as refusal:
        limiter.enter(1, now=1.0)
    assert refusal.value.code == "rate_limit_exceeded"
    assert dict(refusal.value.headers)[b"retry-after-ms"] == b"29000"

    limiter.enter(1, now=31.0)


def test_n_tokens_lower_what_remains_by_n_and_unused_ones_return() -> None:
    limiter = _limiter()
    slot = limiter.enter(1, now=0.0)
    limiter.reserve(slot, 1_000)
    assert dict(slot.headers)[b"x-ratelimit-remaining-tokens"] == b"5000"

    limiter.leave(slot, used_tokens=400)

    assert dict(limiter.enter(1, now=0.0).headers)[b"x-ratelimit-remaining-tokens"] == b"5600"


def test_the_process_knows_when_nothing_runs() -> None:
    limiter = _limiter()
    slot = limiter.enter(1, now=0.0)
    assert limiter.running == 1

    limiter.leave(slot, used_tokens=0)

    assert limiter.running == 0


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.012, b"12ms"), (0, b"0ms"), (1.5, b"1.5s"), (2, b"2s"), (360, b"6m0s")]
)
def test_durations_read_as_openai_writes_them(seconds: float, text: bytes) -> None:
    assert duration(seconds) == text
