"""What money that comes in pays first."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Owed:
    """How much of some money pays debt, and how much what was drawn of a postpaid line (nano)."""

    debt_nano: int = 0
    drawn_nano: int = 0


def owed_of(*, net_nano: int, debt_nano: int, drawn_nano: int) -> Owed:
    """Return what `net_nano` pays of the open debt and then of what was drawn; the rest of it is credit."""
    debt = min(net_nano, debt_nano)
    return Owed(debt, min(net_nano - debt, drawn_nano))
