"""How long a node stood ready in an hour, and what that is paid: from the portal's own history of its states."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

HOUR: Final = timedelta(hours=1)
MINUTES_A_DAY: Final = 24 * 60
# Ready, but kept from work by the operator's own decision about the provider: not on offer.
_NOT_OFFERED: Final = frozenset({"provider_suspended", "provider_not_approved", "agreement_missing"})


@dataclass(frozen=True, slots=True)
class Move:
    """A node's state from a moment on, with its code."""

    at: datetime
    state: str
    code: str

    @property
    def is_available(self) -> bool:
        """Whether requests, or a model, may come to the node."""
        return self.state == "serving" or (self.state == "ready" and self.code not in _NOT_OFFERED)


@dataclass(frozen=True, slots=True)
class GpuPay:
    """One verified GPU and what a minute of it is paid."""

    uuid: str
    nano_per_minute: int


def hour_of(at: datetime) -> datetime:
    """Return the beginning of the UTC hour that `at` falls in."""
    return at.replace(minute=0, second=0, microsecond=0)


def is_full_hour(at: datetime) -> bool:
    """Tell whether a rate may begin at `at`: an hour has one rate."""
    return at == hour_of(at)


def minutes(moves: Iterable[Move], *, hour: datetime) -> int:
    """Return for how many whole minutes of the hour the node was available.

    `moves` are in order; the last one at or before the hour's beginning says how it began.
    """
    ends_at = hour + HOUR
    ordered = list(moves)
    total = timedelta()
    for position, move in enumerate(ordered):
        follows = ordered[position + 1].at if position + 1 < len(ordered) else ends_at
        begins, ends = max(move.at, hour), min(follows, ends_at)
        if move.is_available and ends > begins:
            total += ends - begins
    return total // timedelta(minutes=1)


def pay_nano(gpus: Sequence[GpuPay], *, minutes: int) -> int:
    """Return what so many minutes of these GPUs are paid. Raises ValueError beyond an hour."""
    if not 0 <= minutes <= HOUR // timedelta(minutes=1):
        raise ValueError(f"an hour has no {minutes} minutes")
    return minutes * sum(gpu.nano_per_minute for gpu in gpus)


def rate_of(kind: str | None, *, rates: dict[str, int]) -> int:
    """Return the rate of a kind of GPU: its own, else the one of all kinds (""), else nothing."""
    own = rates.get(kind) if kind else None
    return rates.get("", 0) if own is None else own
