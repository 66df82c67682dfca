"""Whose fault silence is: one silent node's own, many at once the platform's."""

from collections.abc import Sequence
from datetime import datetime, timedelta

OFFLINE_AFTER = timedelta(seconds=45)
# A silence that begins for all at once reaches the nodes one by one, as their heartbeats fall due: whether it is the
# platform's must be known before the first of them is offline.
SUSPECT_AFTER = timedelta(seconds=30)
TOGETHER = timedelta(seconds=60)
PLATFORM_PATIENCE = timedelta(minutes=10)
# Agents try again within half a minute: so long after a mass silence nobody is blamed for having been part of it.
RECOVERY = timedelta(minutes=2)
_MANY = 3
_SHARE = 5  # more than one in five


def is_platform_fault(*, silent_since: Sequence[datetime], fleet: int) -> bool:
    """Tell whether over 20 % (and over 3) of the fleet went silent within 60 seconds."""
    most = len(together(silent_since))
    return most > _MANY and most * _SHARE > fleet


def together(silent_since: Sequence[datetime]) -> Sequence[datetime]:
    """Return the most of these times that lie within 60 seconds, in order."""
    ordered = sorted(silent_since)
    best: Sequence[datetime] = ()
    first = 0
    for last, at in enumerate(ordered):
        while at - ordered[first] > TOGETHER:
            first += 1
        if last - first + 1 > len(best):
            best = ordered[first : last + 1]
    return best


def is_due(*, silent_since: datetime, now: datetime, is_platform_fault: bool, spared_until: datetime | None) -> bool:
    """Tell whether a silent node is to be moved offline: `spared_until` is when a mass silence was last seen."""
    if is_platform_fault:
        return silent_since < now - PLATFORM_PATIENCE
    is_spared = spared_until is not None and silent_since <= spared_until and now - spared_until < RECOVERY
    return silent_since < now - OFFLINE_AFTER and not is_spared
