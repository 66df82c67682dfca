"""What a machine with dated hourly rates costs between two moments."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

_HOUR_US = 3_600_000_000
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Rate:
    """Nano units an hour from a moment on."""

    effective_from: datetime
    nano_per_hour: int


def cost_nano(rates: Sequence[Rate], *, start: datetime, end: datetime) -> int:
    """Return what the time from `start` to `end` costs, rounded half up once; before the first rate nothing.

    `rates` are in the order in which they hold; of two from the same moment the later one holds.
    """
    weighted = 0
    for position, rate in enumerate(rates):
        begins = max(rate.effective_from, start)
        follows = rates[position + 1].effective_from if position + 1 < len(rates) else end
        ends = min(follows, end)
        if ends > begins:
            weighted += (ends - begins) // _MICROSECOND * rate.nano_per_hour
    return (weighted + _HOUR_US // 2) // _HOUR_US
