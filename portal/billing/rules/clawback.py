"""Where the money of a claw-back comes from: what is held or has not matured, what is available, future earnings."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sources:
    """What a provider has that could be taken, in nano units."""

    held_nano: int
    pending_nano: int
    reserve_nano: int
    available_nano: int


@dataclass(frozen=True, slots=True)
class Split:
    """Which part is taken from where; `debt_nano` is owed by the provider and netted from what it earns next."""

    held_nano: int
    pending_nano: int
    reserve_nano: int
    available_nano: int
    debt_nano: int

    @property
    def total_nano(self) -> int:
        """The whole claw-back."""
        return self.held_nano + self.pending_nano + self.reserve_nano + self.available_nano + self.debt_nano


def split(amount_nano: int, sources: Sources) -> Split:
    """Divide a claw-back over its sources, in their order; every unit is in one part."""
    left, parts = amount_nano, dict[str, int]()
    for name in ("held_nano", "pending_nano", "reserve_nano", "available_nano"):
        parts[name] = min(left, max(getattr(sources, name), 0))
        left -= parts[name]
    return Split(**parts, debt_nano=left)


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
