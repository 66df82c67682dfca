"""Stripe's own books, events and settings, as recovery and the doctor read them."""

import pytest

from portal.integrations.stripe_errors import PaymentRejected


def test_a_charge_is_one_line_of_the_books(place):
    since, paid = place.just_before(), place.charge(amount=2500)

    def lines():
        return [one for one in place.door.movements(since=since) if one.source == paid.charge]

    (line,) = place.eventually(lines)

    assert (line.amount_minor, line.net_minor, line.currency) == (2500, 2500 - line.fee_minor, "usd")


def test_the_balance_is_told_by_currency(place):
    found = place.door.balances()

    assert len({one.currency for one in found}) == len(found) >= 1


def test_an_event_tells_of_a_payment(place):
    since, paid = place.just_before(), place.charge()

    def mine():
        listed = place.door.events_since(since=since, types=("payment_intent.succeeded",))
        return [(event, body) for event, body in listed if event.object_id == paid.id]

    ((event, body),) = place.eventually(mine)

    assert (event.type, event.account, event.is_live) == ("payment_intent.succeeded", "", False)
    assert paid.id.encode() in body


def test_more_types_than_stripe_filters_by_are_sorted_out_here(place):
    since, paid = place.just_before(), place.charge()
    types = ("payment_intent.succeeded", *(f"made.up.{number}" for number in range(25)))

    def mine():
        return [event for event, _ in place.door.events_since(since=since, types=types) if event.object_id == paid.id]

    assert [event.type for event in place.eventually(mine)] == ["payment_intent.succeeded"]


def test_endpoints_and_destinations_are_listed(place):
    assert all(one.url for one in place.door.webhook_endpoints())
    assert all(one.payload in {"thin", "snapshot"} for one in place.door.event_destinations())


def test_the_platform_tells_who_it_is(place):
    own = place.door.platform()

    assert own.id.startswith("acct_")
    assert len(own.default_currency) == 3


@pytest.mark.parametrize(
    ("read", "name"),
    [("payment", "pi_nobody"), ("refund", "re_nobody"), ("dispute", "du_nobody"), ("transfer", "tr_nobody")],
)
def test_what_is_not_there_is_named(place, read, name):
    with pytest.raises(PaymentRejected) as refused:
        getattr(place.door, read)(**{read: name})

    assert refused.value.stripe_code == "resource_missing"
