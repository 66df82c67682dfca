"""How far a provider is trusted with money: from its age, its identity and what its nodes were seen doing.

A tier decides how long an earning is held and which part of it is kept back in the rolling reserve.
"""

from dataclasses import dataclass
from datetime import date, timedelta
from enum import StrEnum

from portal.core.money import BPS

NEW_FOR = timedelta(days=30)
TRUSTED_AFTER = timedelta(days=180)
EVIDENCE_COUNTS_FOR = timedelta(days=30)
WATCHED_AT_HOSTILE_HOURS = 3


class Tier(StrEnum):
    """The tiers, least trusted first."""

    WATCHED = "watched"
    NEW = "new"
    STANDARD = "standard"
    TRUSTED = "trusted"


@dataclass(frozen=True, slots=True)
class TierFacts:
    """What decides: the UTC day of the first earning, identification, and hours with hostile evidence."""

    first_earned_on: date | None
    is_identified: bool
    hostile_hours: int


@dataclass(frozen=True, slots=True)
class TierTerms:
    """A tier's terms: multiples, in tenths, of the pool's hold days and of its reserve for new providers."""

    hold_tenths: int
    reserve_tenths: int
    text: str


TERMS: dict[Tier, TierTerms] = {
    Tier.WATCHED: TierTerms(20, 20, "Its nodes broke rules of the pool within the last 30 days."),
    Tier.NEW: TierTerms(10, 10, "Not identified yet, or earning for less than 30 days."),
    Tier.STANDARD: TierTerms(10, 5, "Identified, and earning for 30 days or more."),
    Tier.TRUSTED: TierTerms(10, 0, "Identified, and earning for 180 days or more without a broken rule."),
}


def tier_of(facts: TierFacts, *, on: date) -> Tier:
    """Return the tier that follows from the facts; the first that applies, least trusted first."""
    if facts.hostile_hours >= WATCHED_AT_HOSTILE_HOURS:
        return Tier.WATCHED
    if not facts.is_identified or facts.first_earned_on is None or on < facts.first_earned_on + NEW_FOR:
        return Tier.NEW
    if on < facts.first_earned_on + TRUSTED_AFTER or facts.hostile_hours:
        return Tier.STANDARD
    return Tier.TRUSTED


def hold_days(tier: Tier, *, base_days: int) -> int:
    """Return the tier's hold; part of a day counts as a day, and a base of 0 stays 0."""
    return -(-base_days * TERMS[tier].hold_tenths // 10)


def reserve_bps(tier: Tier, *, base_bps: int) -> int:
    """Return the tier's reserve in basis points of each matured earning, at most all of it."""
    return min(BPS, base_bps * TERMS[tier].reserve_tenths // 10)


def reserve_nano(amount_nano: int, *, bps: int) -> int:
    """Return the part of an amount that is kept back, rounded down."""
    return amount_nano * bps // BPS
