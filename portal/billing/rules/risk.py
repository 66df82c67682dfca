"""How far a customer's money can be trusted to stay: a tier from facts alone, and what follows from it.

A payment can be disputed for months. Most disputes of stolen cards come within sixty days; a payment that its bank
authenticated (3-D Secure) can hardly be disputed as stolen.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

_DAY = timedelta(days=1)
_WEEK = timedelta(days=7)


class Tier(StrEnum):
    """How well the pool knows the customer's payments."""

    NEW = "new"
    KNOWN = "known"
    TRUSTED = "trusted"


KNOWN_AFTER = timedelta(days=60)
KNOWN_AFTER_3DS = timedelta(days=14)
TRUSTED_AFTER = timedelta(days=180)
TRUSTED_PURCHASES = 3
MARKS_COUNT_FOR = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an organization's card payments; `marked_at` is its last dispute or fraud warning."""

    first_paid_at: datetime | None
    purchases: int
    are_all_authenticated: bool
    has_open_trouble: bool
    marked_at: datetime | None


@dataclass(frozen=True, slots=True)
class Judged:
    """A tier and the reasons for it, as people read them."""

    tier: Tier
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Holds:
    """How many days the earnings from a customer of each tier mature."""

    new: int
    known: int
    trusted: int

    def days(self, tier: str) -> int:
        """Return the days of one tier; none where the customer never paid by card."""
        return {Tier.NEW: self.new, Tier.KNOWN: self.known, Tier.TRUSTED: self.trusted}[Tier(tier)] if tier else 0


def judge(facts: Facts, *, now: datetime) -> Judged:
    """Return the tier that the facts alone give."""
    if facts.has_open_trouble:
        return Judged(Tier.NEW, ("a dispute or a fraud warning is open",))
    if facts.marked_at is not None and now - facts.marked_at < MARKS_COUNT_FOR:
        return Judged(Tier.NEW, (f"a dispute or a fraud warning on {facts.marked_at:%Y-%m-%d}",))
    if facts.first_paid_at is None:
        return Judged(Tier.NEW, ("no card payment yet",))
    return _by_age(facts, now - facts.first_paid_at)


def _by_age(facts: Facts, age: timedelta) -> Judged:
    since = f"first card payment {age.days} days ago"
    if age >= TRUSTED_AFTER and facts.purchases >= TRUSTED_PURCHASES:
        return Judged(Tier.TRUSTED, (since, f"{facts.purchases} purchases", "no dispute within a year"))
    if age >= KNOWN_AFTER:
        return Judged(Tier.KNOWN, (since,))
    if age >= KNOWN_AFTER_3DS and facts.are_all_authenticated:
        return Judged(Tier.KNOWN, (since, "every payment was authenticated by its bank"))
    return Judged(Tier.NEW, (since,))


@dataclass(frozen=True, slots=True)
class Buyer:
    """What decides how much may be bought: how old the organization is, and what it paid long enough ago."""

    created_at: datetime
    settled_minor: int
    has_trouble: bool


def most_in_a_day(buyer: Buyer, *, first_minor: int, now: datetime) -> int:
    """Return the most that may be bought within 24 hours: the first purchase's cap for each week of age begun, and
    twice what was paid more than `KNOWN_AFTER_3DS` ago; after trouble never more than the first cap."""
    if buyer.has_trouble:
        return first_minor
    weeks = max(0, (now - buyer.created_at) // _WEEK)
    return first_minor * (1 + weeks) + 2 * buyer.settled_minor


@dataclass(frozen=True, slots=True)
class Bought:
    """One purchase of the last 24 hours, in minor units."""

    at: datetime
    minor: int


def fits_at(
    buyer: Buyer, *, bought: Sequence[Bought], amount_minor: int, first_minor: int, now: datetime
) -> datetime | None:
    """Return when so much may be bought at the latest, if nothing else is until then; None: not by waiting."""
    old_enough = now
    if buyer.has_trouble:
        if amount_minor > first_minor:
            return None
    else:
        weeks = -(-(amount_minor - 2 * buyer.settled_minor) // first_minor) - 1
        old_enough = max(now, buyer.created_at + max(0, weeks) * _WEEK)
    moments = [old_enough, *sorted(one.at + _DAY for one in bought if one.at + _DAY > old_enough)]
    return next(at for at in moments if amount_minor <= left_at(buyer, bought=bought, first_minor=first_minor, at=at))


def left_at(buyer: Buyer, *, bought: Sequence[Bought], first_minor: int, at: datetime) -> int:
    """Return how much more may be bought then."""
    counted = sum(one.minor for one in bought if one.at > at - _DAY)
    return most_in_a_day(buyer, first_minor=first_minor, now=at) - counted


def asks_for_3ds(*, tier: str, paid_purchases: int, first_purchases: int) -> bool:
    """Tell whether the next purchase must be authenticated by the buyer's bank."""
    return paid_purchases < first_purchases or tier == Tier.NEW
