"""Tiers follow from age, identity and evidence; hold and reserve follow from the tier."""

from datetime import date, timedelta

import pytest

from portal.billing.rules.trust_tiers import TERMS, Tier, TierFacts, hold_days, reserve_bps, reserve_nano, tier_of

TODAY = date(2026, 11, 2)


@pytest.mark.parametrize(
    ("age_days", "is_identified", "hostile_hours", "tier"),
    [
        (None, True, 0, Tier.NEW),
        (0, True, 0, Tier.NEW),
        (29, True, 0, Tier.NEW),
        (30, True, 0, Tier.STANDARD),
        (400, False, 0, Tier.NEW),
        (179, True, 0, Tier.STANDARD),
        (180, True, 0, Tier.TRUSTED),
        (400, True, 1, Tier.STANDARD),
        (400, True, 2, Tier.STANDARD),
        (400, True, 3, Tier.WATCHED),
        (None, False, 3, Tier.WATCHED),
    ],
)
def test_the_tier(age_days, is_identified, hostile_hours, tier):
    first = None if age_days is None else TODAY - timedelta(days=age_days)

    assert tier_of(TierFacts(first, is_identified, hostile_hours), on=TODAY) == tier


def test_every_tier_has_terms_and_says_why():
    assert set(TERMS) == set(Tier)
    assert all(terms.text for terms in TERMS.values())


def test_the_less_trusted_wait_longer_and_leave_more():
    assert [hold_days(tier, base_days=7) for tier in Tier] == [14, 7, 7, 7]
    assert [reserve_bps(tier, base_bps=1000) for tier in Tier] == [2000, 1000, 500, 0]


def test_no_hold_and_no_reserve_stay_none():
    assert {hold_days(tier, base_days=0) for tier in Tier} == {0}
    assert {reserve_bps(tier, base_bps=0) for tier in Tier} == {0}


def test_the_reserve_is_rounded_down_and_never_more_than_all():
    assert reserve_nano(999, bps=1000) == 99
    assert reserve_nano(0, bps=1000) == 0
    assert reserve_bps(Tier.WATCHED, base_bps=9000) == 10_000
