"""What the usage of a while would have cost at another price, from its sums: how near that comes is known."""

from dataclasses import dataclass

from portal.billing.rules.rating import PriceTerms
from portal.core.money import BPS, MTOK

_HALF = MTOK // 2


@dataclass(frozen=True, slots=True)
class Sums:
    """Requests and their tokens added up; `prompt_tokens` include the cached ones."""

    requests: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True, slots=True)
class Estimate:
    """An amount that is at most `bound_nano` away from the sum of what each request comes to by itself."""

    nano: int
    bound_nano: int


def charged(sums: Sums, terms: PriceTerms) -> Estimate:
    """Return what the requests would be charged: their rounding, half a nano each at most, is not in the sums."""
    millionths = (
        (sums.prompt_tokens - sums.cached_tokens) * terms.prompt_nano_per_mtok
        + sums.cached_tokens * terms.cached_nano_per_mtok
        + sums.completion_tokens * terms.completion_nano_per_mtok
    )
    nano = sums.requests * terms.request_nano + (millionths + _HALF) // MTOK
    return Estimate(nano, (sums.requests + 1) // 2 if sums.requests > 1 else 0)


def earned(charge: Estimate, *, requests: int, share_bps: int) -> Estimate:
    """Return what providers would get of it: each request's share is floored, which the sums do not know either."""
    if not share_bps:
        return Estimate(0, 0)
    return Estimate(charge.nano * share_bps // BPS, charge.bound_nano + requests)
