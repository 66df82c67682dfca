"""What customers are told of their limits: headers on every answer, and refusals that say whose limit it is."""

from collections.abc import Sequence
from typing import Final

from portal.gateway.errors import RATE_LIMIT, ApiError, Headers
from portal.gateway.limits.owner import Owner
from portal.gateway.limits.shares import Share

_MINUTE_S: Final = 60.0
_PARALLEL_RETRY_S: Final = 1.0
_REQUESTS: Final = (
    b"x-ratelimit-limit-requests",
    b"x-ratelimit-remaining-requests",
    b"x-ratelimit-reset-requests",
)
_TOKENS: Final = (b"x-ratelimit-limit-tokens", b"x-ratelimit-remaining-tokens", b"x-ratelimit-reset-tokens")
_OVER: Final = {"key": "", "project": ", over all its keys,", "organization": ", over all its keys and projects,"}


class LimitReached(ApiError):
    """429. `limits` are the x-ratelimit headers of its answer."""

    def __init__(self, code: str, message: str, *, retry_after_s: float, limits: Headers) -> None:
        super().__init__(429, RATE_LIMIT, code, message, retry_after_s=retry_after_s)
        self.limits = limits


def headers(owners: Sequence[Owner], now: float) -> Headers:
    """Return x-ratelimit-*: of the owner that has least left, requests and tokens each."""
    requests = [owner.requests for owner in owners if owner.requests.size]
    tokens = [owner.tokens for owner in owners if owner.tokens.size]
    return (*_lines(_REQUESTS, requests, now), *_lines(_TOKENS, tokens, now))


def duration(seconds: float) -> bytes:
    """Return a duration as OpenAI writes it: `12ms`, `1.5s`, `6m0s`."""
    if seconds < 1:
        return b"%dms" % round(seconds * 1000)
    if seconds < _MINUTE_S:
        return f"{seconds:.3f}".rstrip("0").rstrip(".").encode() + b"s"
    minutes, rest = divmod(round(seconds), 60)
    return b"%dm%ds" % (minutes, rest)


def too_many_parallel(owner: Owner, owners: Sequence[Owner], now: float) -> LimitReached:
    """Return 429 too_many_parallel_requests."""
    message = (
        f"The {owner.kind} {owner.public_id}{_OVER[owner.kind]} may run {owner.places.size} requests at once, and as "
        "many run now; wait for one to end."
    )
    return LimitReached(
        "too_many_parallel_requests", message, retry_after_s=_PARALLEL_RETRY_S, limits=headers(owners, now)
    )


def too_many_requests(owner: Owner, owners: Sequence[Owner], now: float) -> LimitReached:
    """Return 429 rate_limit_exceeded for requests a minute."""
    return _too_fast(owner, owner.requests, 1, owners, now)


def too_many_tokens(owner: Owner, tokens: int, owners: Sequence[Owner], now: float) -> LimitReached:
    """Return 429 rate_limit_exceeded for tokens a minute."""
    if tokens > owner.tokens.size:
        message = (
            f"This request can use up to {tokens} tokens, more than the {owner.tokens.size} a minute of the "
            f"{owner.kind} {owner.public_id}: shorten it, lower max_tokens, or ask for a higher limit."
        )
        lines = (*headers(owners, now), (b"x-should-retry", b"false"))
        return LimitReached("rate_limit_exceeded", message, retry_after_s=_MINUTE_S, limits=lines)
    return _too_fast(owner, owner.tokens, tokens, owners, now)


def _too_fast(owner: Owner, share: Share, units: int, owners: Sequence[Owner], now: float) -> LimitReached:
    wait_s = share.wait_s(units, now)
    what = "requests" if share is owner.requests else "tokens"
    asked = "" if share is owner.requests else f" this one can use up to {units};"
    message = (
        f"The {owner.kind} {owner.public_id}{_OVER[owner.kind]} is limited to {share.size} {what} a minute;{asked} "
        f"retry in {wait_s:.2f} s. The limit is whole again in {share.reset_s(now):.2f} s."
    )
    return LimitReached("rate_limit_exceeded", message, retry_after_s=wait_s, limits=headers(owners, now))


def _lines(names: tuple[bytes, bytes, bytes], shares: list[Share], now: float) -> Headers:
    if not shares:
        return ()
    tightest = shares[0]
    left = tightest.remaining(now)
    for share in shares[1:]:
        if (other := share.remaining(now)) < left:
            tightest, left = share, other
    limit, remaining, reset = names
    wait_s = max(0.0, (tightest.size - left) * _MINUTE_S / tightest.size)
    return (
        (limit, b"%d" % tightest.size),
        (remaining, b"%d" % left if left > 0 else b"0"),
        (reset, duration(wait_s)),
    )
