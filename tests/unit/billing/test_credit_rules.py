"""Runway, low credit, refusals of cards, what money pays first, bills: to the nano and the second."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.billing.rules import auto_topups, confirming, incoming, postpaid, rating, runway
from portal.billing.rules.auto_topups import Refused
from portal.billing.rules.incoming import Owed
from portal.web import formats

NOW = datetime(2026, 11, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("balance", "spent", "lasts"),
    [
        (100, 0, None),
        (700, 700, timedelta(days=7)),
        (100, 700, timedelta(days=1)),
        (0, 700, timedelta()),
        (-5, 700, timedelta()),
        (10**18, 1, timedelta(days=3650)),
    ],
)
def test_runway_is_the_balance_over_the_average_day(balance, spent, lasts):
    assert runway.runway(balance_nano=balance, spent_nano=spent) == lasts


@pytest.mark.parametrize(
    ("lasts", "words"),
    [
        (None, "no spend in the last 7 days"),
        (timedelta(minutes=59), "less than an hour"),
        (timedelta(hours=1), "1 hour"),
        (timedelta(hours=47), "47 hours"),
        (timedelta(days=2), "2 days"),
        (timedelta(days=3650), "years"),
    ],
)
def test_runway_in_words(lasts, words):
    assert runway.in_words(lasts) == words


@pytest.mark.parametrize(
    ("balance", "was_low", "is_low"),
    [(1000, False, False), (999, False, True), (999, True, True), (1099, True, True), (1100, True, False)],
)
def test_low_credit_stays_low_until_it_is_a_tenth_above(balance, was_low, is_low):
    assert runway.is_low(balance_nano=balance, threshold_nano=1000, was_low=was_low) is is_low


def test_money_pays_debt_then_what_was_drawn_then_becomes_credit():
    assert incoming.owed_of(net_nano=10, debt_nano=0, drawn_nano=0) == Owed(0, 0)
    assert incoming.owed_of(net_nano=10, debt_nano=4, drawn_nano=3) == Owed(4, 3)
    assert incoming.owed_of(net_nano=10, debt_nano=4, drawn_nano=30) == Owed(4, 6)
    assert incoming.owed_of(net_nano=10, debt_nano=40, drawn_nano=30) == Owed(10, 0)


@pytest.mark.parametrize(
    ("refused", "needs_owner", "is_final"),
    [
        (Refused("authentication_required"), True, False),
        (Refused("card_declined", "authentication_required"), True, False),
        (Refused("card_declined", "insufficient_funds"), False, False),
        (Refused("card_declined", "stolen_card"), False, True),
        (Refused("expired_card"), False, True),
        (Refused("parameter_invalid", is_bad_call=True), False, True),
    ],
)
def test_what_a_refusal_means(refused, needs_owner, is_final):
    assert (refused.needs_owner, refused.is_final) == (needs_owner, is_final)


def test_pauses_grow_and_the_third_refusal_is_the_last():
    soft = Refused("card_declined", "insufficient_funds")

    after = [auto_topups.setback(failures=count, refused=soft, now=NOW) for count in range(3)]

    assert [(one.failures, one.retry_at, one.is_off) for one in after] == [
        (1, NOW + timedelta(hours=1), False),
        (2, NOW + timedelta(hours=6), False),
        (3, None, True),
    ]


def test_the_cap_may_be_reached_and_not_passed():
    assert auto_topups.has_room(spent_minor=3000, amount_minor=2000, cap_minor=5000)
    assert not auto_topups.has_room(spent_minor=3001, amount_minor=2000, cap_minor=5000)


@pytest.mark.parametrize(("settled", "open_nano"), [(0, 30), (70, 30), (71, 29), (99, 1), (100, 0), (1000, 0)])
def test_a_bill_is_open_as_far_as_older_draws_and_its_own_are_not_settled(settled, open_nano):
    assert postpaid.outstanding(total_drawn_nano=100, drawn_nano=30, settled_nano=settled) == open_nano


def test_a_bill_is_paid_in_whole_minor_units():
    assert postpaid.payable_minor(nano=10_000_001, nano_per_minor=10_000_000) == 2
    assert postpaid.payable_minor(nano=10_000_000, nano_per_minor=10_000_000) == 1
    assert postpaid.payable_minor(nano=0, nano_per_minor=10_000_000) == 0


@pytest.mark.parametrize(
    ("amount", "approvers", "second_from", "people"),
    [(99, 1, 100, 1), (100, 1, 100, 2), (1, 2, 100, 2), (1, 1, 0, 2)],
)
def test_how_many_stand_for_a_booking_by_hand(amount, approvers, second_from, people):
    found = confirming.people_needed(amount_minor=amount, approvers=approvers, second_from_minor=second_from)

    assert found == people


# langfuse/langfuse#1041: requests that cost less than a cent were each rounded to nothing
def test_tiny_requests_add_up_to_what_they_cost():
    price = rating.Terms(
        prompt_nano_per_mtok=200_000_000, cached_nano_per_mtok=50_000_000, completion_nano_per_mtok=800_000_000
    )

    each = rating.charge_nano(price=price, prompt=3, cached=0, completion=1)

    assert each == 1_400
    assert formats.money(each, currency="usd") == "$0.00"
    assert formats.money(sum(each for _ in range(1_000_000)), currency="usd") == "$1.40"
