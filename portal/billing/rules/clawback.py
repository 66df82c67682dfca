"""Where the money of a claw-back comes from: what has not matured, then what is available, then future earnings."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sources:
    """What a provider has that could be taken, in nano units."""

    pending_nano: int
    reserve_nano: int
    available_nano: int


@dataclass(frozen=True, slots=True)
class Split:
    """Which part is taken from where; `debt_nano` is owed by the provider and netted from what it earns next."""

    pending_nano: int
    reserve_nano: int
    available_nano: int
    debt_nano: int

    @property
    def total_nano(self) -> int:
        """The whole claw-back."""
        return self.pending_nano + self.reserve_nano + self.available_nano + self.debt_nano


def split(amount_nano: int, sources: Sources) -> Split:
    """Divide a claw-back over its sources, in their order; every unit is in one part."""
    pending = min(amount_nano, max(sources.pending_nano, 0))
    reserve = min(amount_nano - pending, max(sources.reserve_nano, 0))
    available = min(amount_nano - pending - reserve, max(sources.available_nano, 0))
    return Split(pending, reserve, available, amount_nano - pending - reserve - available)


def shares(amount_nano: int, lefts: Sequence[int]) -> list[int]:
    """Divide what is taken over rows in the order given; raises ValueError where they do not hold as much."""
    taken: list[int] = []
    for left in lefts:
        part = min(amount_nano, left)
        taken.append(part)
        amount_nano -= part
    if amount_nano:
        raise ValueError(f"the rows are {amount_nano} nano short")
    return taken
