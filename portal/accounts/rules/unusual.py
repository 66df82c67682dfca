"""When the use of a key is unusual: a place or a spend unlike what it had before."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

BASELINE = timedelta(days=1)
ROAMING_NETWORKS = 20
SPIKE_FACTOR = 5
SPIKE_FLOOR_NANO = 5_000_000_000
MIN_DAYS = 3


@dataclass(frozen=True, slots=True)
class Place:
    """A network and country (empty where unknown) and when the key was first used from there."""

    network: str
    country: str
    first_seen_at: datetime


def is_new_country(place: Place, *, earlier: Collection[Place]) -> bool:
    """Tell whether the key is settled and was never used from this country. Unknown countries say nothing."""
    known = {other.country for other in earlier if other.country}
    return _is_settled(place, earlier) and bool(place.country) and bool(known) and place.country not in known


def is_new_network(place: Place, *, earlier: Collection[Place]) -> bool:
    """Tell whether the key is settled and was never used from this network. A key that roams has no usual ones."""
    known = {other.network for other in earlier}
    return _is_settled(place, earlier) and place.network not in known and len(known) < ROAMING_NETWORKS


def is_spike(*, today_nano: int, days_nano: Sequence[int]) -> bool:
    """Tell whether today's spend is far above the mean of the days before, days without any spend among them."""
    if len(days_nano) < MIN_DAYS or today_nano < SPIKE_FLOOR_NANO:
        return False
    return today_nano * len(days_nano) > SPIKE_FACTOR * sum(days_nano)


def _is_settled(place: Place, earlier: Collection[Place]) -> bool:
    return bool(earlier) and place.first_seen_at >= min(other.first_seen_at for other in earlier) + BASELINE
