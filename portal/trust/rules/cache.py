"""Whether a node says too little of what it served from its prefix cache, which its customers would pay in full."""

from dataclasses import dataclass

MEASURED_TOKENS = 20_000
FADING_TOKENS = 2_000_000
_HALF = 2


@dataclass(frozen=True, slots=True)
class Cached:
    """Prompt tokens that a cache must have held, and how many of those the node says it held."""

    expected: int = 0
    claimed: int = 0

    def __add__(self, other: "Cached") -> "Cached":
        return Cached(self.expected + other.expected, self.claimed + other.claimed)

    @property
    def is_measured(self) -> bool:
        """Whether enough was expected to say anything."""
        return self.expected >= MEASURED_TOKENS


def seen(*, expected: int, claimed: int | None) -> Cached:
    """Return one attempt's part; a node may have cached more than we know of, and saying nothing is saying none."""
    return Cached(expected, min(expected, claimed or 0))


def least_claimable(*, own: Cached, others: Cached) -> int:
    """Return the least that a node may claim: half of what the model's other nodes do of the same expectation.

    Where nobody else is measured, the expectation itself is what they would claim; an engine may evict a half of it.
    """
    usual_claimed, usual_expected = (others.claimed, others.expected) if others.is_measured else (1, 1)
    return -(-usual_claimed * own.expected // (usual_expected * _HALF))


def hides_cache(*, own: Cached, others: Cached) -> bool:
    """Tell whether a measured node claims less than it may."""
    return own.is_measured and own.claimed < least_claimable(own=own, others=others)
