"""When a node's claims run further ahead of our count than its model explains."""

from dataclasses import dataclass

MEASURED_TOKENS = 1_000
FADING_TOKENS = 100_000
_SLACK_BPS = 20
_BPS = 10_000
_FULL_WEIGHT = 1.0
_UNMEASURED_WEIGHT = 0.8
DISTRUSTED_WEIGHT = 0.5


@dataclass(frozen=True, slots=True)
class Sums:
    """Claimed and counted tokens of one field; `allowed` are claims beyond the count that are in order."""

    claimed: int = 0
    counted: int = 0
    allowed: int = 0

    def __add__(self, other: "Sums") -> "Sums":
        return Sums(self.claimed + other.claimed, self.counted + other.counted, self.allowed + other.allowed)

    @property
    def is_measured(self) -> bool:
        """Whether enough was counted to say anything."""
        return self.counted >= MEASURED_TOKENS

    @property
    def bias_bps(self) -> int:
        """Basis points by which claims exceed the count; 0 where nothing was counted or less was claimed."""
        excess = self.claimed - self.counted - self.allowed
        return max(0, excess) * _BPS // self.counted if self.counted else 0


def most_claimable(*, own: Sums, others: Sums) -> int:
    """Return the most that a node may claim: what the model's other nodes do, and a fifth of a percent more."""
    usual_bps = others.bias_bps if others.is_measured else 0
    beyond = max(0, (usual_bps + _SLACK_BPS + 1) * own.counted - 1) // _BPS
    return own.counted + own.allowed + beyond


def exceeds_model(*, own: Sums, others: Sums) -> bool:
    """Tell whether a measured node claims more than the model's other nodes explain."""
    return own.is_measured and own.claimed > most_claimable(own=own, others=others)


def weight(*, has_tolerance: bool, is_measured: bool) -> float:
    """Return the node's weight in routing: full, less while little is known of it, least once it was caught."""
    if not has_tolerance:
        return DISTRUSTED_WEIGHT
    return _FULL_WEIGHT if is_measured else _UNMEASURED_WEIGHT
