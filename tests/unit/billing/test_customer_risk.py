"""Tiers, caps and attempts follow from facts alone."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.billing.rules import attempts, disputes, related, risk
from portal.billing.rules.attempts import Allowance
from portal.billing.rules.risk import Bought, Buyer, Facts, Holds, Tier

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
INSTANT = timedelta(microseconds=1)


def facts(*, age=0 * DAY, purchases=1, is_secure=False, trouble=False, marked=None) -> Facts:
    """Return what is known of a customer whose first payment is `age` ago."""
    return Facts(
        first_paid_at=NOW - age,
        purchases=purchases,
        are_all_authenticated=is_secure,
        has_open_trouble=trouble,
        marked_at=None if marked is None else NOW - marked,
    )


@pytest.mark.parametrize(
    ("known", "tier"),
    [
        (facts(), Tier.NEW),
        (facts(age=60 * DAY - INSTANT), Tier.NEW),
        (facts(age=60 * DAY), Tier.KNOWN),
        (facts(age=14 * DAY - INSTANT, is_secure=True), Tier.NEW),
        (facts(age=14 * DAY, is_secure=True), Tier.KNOWN),
        (facts(age=14 * DAY, is_secure=False), Tier.NEW),
        (facts(age=180 * DAY, purchases=2), Tier.KNOWN),
        (facts(age=180 * DAY, purchases=3), Tier.TRUSTED),
        (facts(age=180 * DAY - INSTANT, purchases=3), Tier.KNOWN),
        (facts(age=900 * DAY, purchases=99, trouble=True), Tier.NEW),
        (facts(age=900 * DAY, purchases=99, marked=365 * DAY - INSTANT), Tier.NEW),
        (facts(age=900 * DAY, purchases=99, marked=365 * DAY), Tier.TRUSTED),
    ],
)
def test_the_tier_follows_from_the_facts(known, tier):
    judged = risk.judge(known, now=NOW)

    assert judged.tier is tier
    assert judged.reasons


def test_who_never_paid_by_card_is_new():
    never = Facts(None, 0, are_all_authenticated=False, has_open_trouble=False, marked_at=None)

    assert risk.judge(never, now=NOW).tier is Tier.NEW


def test_each_tier_has_its_days_and_no_card_none():
    holds = Holds(new=60, known=14, trusted=0)

    assert [holds.days(tier) for tier in ("new", "known", "trusted", "")] == [60, 14, 0, 0]


@pytest.mark.parametrize(
    ("buyer", "most"),
    [
        (Buyer(NOW, 0, has_trouble=False), 100),
        (Buyer(NOW - 7 * DAY + INSTANT, 0, has_trouble=False), 100),
        (Buyer(NOW - 7 * DAY, 0, has_trouble=False), 200),
        (Buyer(NOW - 70 * DAY, 5000, has_trouble=False), 11_100),
        (Buyer(NOW - 700 * DAY, 5000, has_trouble=True), 100),
    ],
)
def test_the_cap_grows_with_age_and_what_was_paid_and_falls_after_trouble(buyer, most):
    assert risk.most_in_a_day(buyer, first_minor=100, now=NOW) == most


@pytest.mark.parametrize(
    ("buyer", "hours_ago", "amount", "wait"),
    [
        (Buyer(NOW, 0, has_trouble=False), [(2, 60)], 41, 22 * HOUR),
        (Buyer(NOW, 0, has_trouble=False), [(20, 50), (2, 50)], 50, 4 * HOUR),
        (Buyer(NOW, 0, has_trouble=False), [(20, 50), (2, 50)], 100, 22 * HOUR),
        (Buyer(NOW, 0, has_trouble=False), [(2, 60)], 101, 7 * DAY),
        (Buyer(NOW - 6 * DAY, 0, has_trouble=False), [(1, 100)], 200, DAY),
        (Buyer(NOW, 0, has_trouble=False), [], 350, 21 * DAY),
        (Buyer(NOW, 100, has_trouble=False), [], 350, 7 * DAY),
        (Buyer(NOW - 70 * DAY, 0, has_trouble=True), [(3, 1)], 100, 21 * HOUR),
        (Buyer(NOW - 70 * DAY, 0, has_trouble=True), [], 101, None),
    ],
)
def test_when_so_much_may_be_bought_is_known(buyer, hours_ago, amount, wait):
    bought = [Bought(NOW - hours * HOUR, minor) for hours, minor in hours_ago]

    at = risk.fits_at(buyer, bought=bought, amount_minor=amount, first_minor=100, now=NOW)

    assert at == (None if wait is None else NOW + wait)
    if at is not None:
        then, before = (risk.left_at(buyer, bought=bought, first_minor=100, at=moment) for moment in (at, at - INSTANT))
        assert before < amount <= then


@pytest.mark.parametrize(
    ("tier", "paid", "asks"), [("", 0, True), ("known", 2, True), ("known", 3, False), ("new", 9, True), ("", 3, False)]
)
def test_first_purchases_and_new_customers_are_authenticated(tier, paid, asks):
    assert risk.asks_for_3ds(tier=tier, paid_purchases=paid, first_purchases=3) is asks


@pytest.mark.parametrize(
    ("ago_minutes", "wait_minutes"),
    [
        ([], None),
        ([10, 20], None),
        ([10, 20, 59], 1),
        ([10, 20, 60], None),
        ([5, 10, 20, 59], 40),
        ([61, 200, 300, 400, 500], 1440 - 500),
    ],
)
def test_the_next_attempt_waits_until_enough_have_aged(ago_minutes, wait_minutes):
    past = [NOW - timedelta(minutes=minutes) for minutes in ago_minutes]

    free_at = attempts.next_at(past, allowance=Allowance(an_hour=3, a_day=5), now=NOW)

    assert free_at == (None if wait_minutes is None else NOW + timedelta(minutes=wait_minutes))


def test_no_allowance_is_no_limit():
    assert attempts.next_at([NOW] * 1000, allowance=Allowance(0, 0), now=NOW) is None


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], ""),
        (["address"], "suspected"),
        (["flow"], ""),
        (["address", "flow"], "related"),
        (["person"], "related"),
        (["card"], "related"),
        (["bank"], "related"),
        (["address", "card"], "related"),
    ],
)
def test_an_address_alone_condemns_nobody(kinds, found):
    assert related.weigh(kinds) == found


def test_half_of_what_is_spent_is_a_flow():
    assert related.is_flow(spent_with_nano=5, spent_nano=10)
    assert not related.is_flow(spent_with_nano=4, spent_nano=10)
    assert not related.is_flow(spent_with_nano=0, spent_nano=0)


def test_shared_facts_have_words():
    assert related.in_words(["card", "address"]) == "both were seen at the same address; the same card paid for both"


@pytest.mark.parametrize(
    ("status", "is_open"),
    [("needs_response", True), ("warning_under_review", True), ("won", False), ("lost", False), ("brand_new", True)],
)
def test_a_word_that_is_not_known_counts_as_open(status, is_open):
    assert disputes.is_open(status) is is_open
