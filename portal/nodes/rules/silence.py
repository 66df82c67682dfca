"""Whose fault silence is: one silent node's own, many at once the platform's."""

from collections.abc import Sequence
from datetime import datetime, timedelta

OFFLINE_AFTER = timedelta(seconds=45)
# A silence that begins for all at once reaches the nodes one by one, as their heartbeats fall due: whether it is the
# platform's must be known before the first of them is offline.
SUSPECT_AFTER = timedelta(seconds=30)
TOGETHER = timedelta(seconds=60)
PLATFORM_PATIENCE = timedelta(minutes=10)
_MANY = 3
_SHARE = 5  # more than one in five


def is_platform_fault(*, silent_since: Sequence[datetime], fleet: int) -> bool:
    """Tell whether over 20 % (and over 3) of the fleet went silent within 60 seconds."""
    ordered = sorted(silent_since)
    most = 0
    first = 0
    for last, at in enumerate(ordered):
        while at - ordered[first] > TOGETHER:
            first += 1
        most = max(most, last - first + 1)
    return most > _MANY and most * _SHARE > fleet
