"""Paying afterwards: what is paid settles the oldest draws first, and a bill names the draws of one month."""

from datetime import datetime, timedelta


def outstanding(*, total_drawn_nano: int, drawn_nano: int, settled_nano: int) -> int:
    """Return what of a bill is still open.

    `total_drawn_nano` was drawn until the bill's month ended, `drawn_nano` of it in that month; `settled_nano` is what
    was ever paid or written off.
    """
    return max(0, min(drawn_nano, total_drawn_nano - settled_nano))


def due_at(*, made_at: datetime, due_days: int) -> datetime:
    """Return when a bill must have been paid."""
    return made_at + timedelta(days=due_days)


def payable_minor(*, nano: int, nano_per_minor: int) -> int:
    """Return the whole minor units that settle the amount; less than one more becomes credit."""
    return -(-nano // nano_per_minor)
