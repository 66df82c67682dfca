"""Ends leases whose process no longer asks for them, and closes those whose charges are all booked."""

from dataclasses import dataclass
from datetime import datetime

from portal.billing.services import budgets, leases


@dataclass(frozen=True, slots=True)
class Swept:
    """How many leases were fenced because their term was over, and how many were closed."""

    fenced: int
    closed: int


def sweep(*, now: datetime) -> Swept:
    """Fence what expired and close what is done; safe to run twice and beside gateways."""
    fenced = len(leases.LIFE.begin_closing_expired(now=now)) + len(budgets.LIFE.begin_closing_expired(now=now))
    closed = leases.LIFE.finish_closing(now=now) + budgets.LIFE.finish_closing(now=now)
    return Swept(fenced=fenced, closed=closed)
