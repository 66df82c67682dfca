"""How much of a balance can be sent: whole minor units, or whole units where the banks know no smaller ones."""

from portal.core import money


def step_minor(currency: str) -> int:
    """Return the smallest step between two amounts that can be sent."""
    return money.payout_step_minor(currency)


def payable_minor(nano: int, currency: str) -> int:
    """Return the largest amount that can be sent; the rest stays payable."""
    minor, _ = money.minor_from_nano(max(nano, 0), currency)
    return int(minor - minor % step_minor(currency))
