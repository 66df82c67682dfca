"""What `ledger_check` finds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Difference:
    """Two things that must be equal and are not; `code` is stable, amounts are nano units as text."""

    code: str
    subject: str
    expected: str
    actual: str
