"""The budgets' purses of this process: one for each window of each owner that requests draw on."""

import time
from dataclasses import dataclass
from datetime import datetime

from portal.billing.rules import windows
from portal.billing.rules.windows import Window
from portal.gateway.contracts import BudgetTerms
from portal.gateway.lease_keeper import UNUSED_S
from portal.gateway.lease_sources import BudgetSource
from portal.gateway.purse import Purse
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads

_Key = tuple[str, str, Window]


@dataclass(frozen=True, slots=True)
class _Present:
    """An owner's budget as it was asked for last, until its window ends (Unix seconds)."""

    terms: BudgetTerms
    ends_at: float
    purse: Purse


class BudgetPurses:
    """Never two purses for one window: both would spend the same lease."""

    def __init__(self, *, spool: Spool, threads: DatabaseThreads) -> None:
        self._spool = spool
        self._threads = threads
        self._present: dict[str, _Present] = {}
        self._purses: dict[_Key, Purse] = {}
        self._by_owner: dict[str, list[Purse]] = {}

    def find(self, terms: BudgetTerms, now: datetime, at: float) -> Purse:
        """Return the purse of the window that `now` (and `at`, the same in Unix seconds) falls in."""
        known = self._present.get(terms.owner)
        if known is not None and at < known.ends_at and (known.terms is terms or known.terms == terms):
            return known.purse
        window = windows.window_of(period=terms.period, zone=terms.zone, at=now)
        key = (terms.owner, terms.period, window)
        purse = self._purses.get(key)
        if purse is None:
            purse = self._purses[key] = Purse(BudgetSource(terms, now, self._spool, self._threads))
            self._by_owner.setdefault(terms.owner, []).append(purse)
        self._present[terms.owner] = _Present(terms, _end(window), purse)
        return purse

    def of_owner(self, owner: str) -> list[Purse]:
        """Return the purses of all windows of the owner's budget."""
        return self._by_owner.get(owner, [])

    def all(self) -> list[Purse]:
        """Return all purses."""
        return list(self._purses.values())

    def forget_empty(self) -> None:
        """Drop the purses that hold nothing and were not asked for a while, or whose window is over."""
        now, at = time.monotonic(), time.time()
        gone = {
            id(purse)
            for (_, _, window), purse in self._purses.items()
            if purse.is_empty and (now - purse.taken_at > UNUSED_S or _end(window) <= at)
        }
        if not gone:
            return
        self._purses = {key: purse for key, purse in self._purses.items() if id(purse) not in gone}
        self._present = {owner: row for owner, row in self._present.items() if id(row.purse) not in gone}
        by_owner: dict[str, list[Purse]] = {}
        for (owner, _, _), purse in self._purses.items():
            by_owner.setdefault(owner, []).append(purse)
        self._by_owner = by_owner


def _end(window: Window) -> float:
    return window.ends_at.timestamp() if window.ends_at else float("inf")
