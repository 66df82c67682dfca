"""Hosted Checkout: what a session is before anybody has paid, and what Stripe refuses to sell."""

import pytest

from portal.integrations.stripe_errors import PaymentRejected


def test_an_open_session_is_what_was_ordered(place):
    opened = place.checkout(amount_minor=5025)

    seen = place.door.checkout(session=opened.id)

    assert (seen.status, seen.payment_status, seen.amount_minor, seen.currency) == ("open", "unpaid", 5025, "usd")
    assert (seen.reference, seen.customer) == (opened.reference, opened.customer)
    assert (seen.fee_minor, seen.charge, seen.card, seen.invoice, seen.is_live) == (None, "", None, "", False)
    assert seen.url.startswith("http")


@pytest.mark.parametrize(("currency", "amount"), [("jpy", 500), ("kwd", 5000), ("usd", 50)])
def test_amounts_are_in_the_currencys_own_smallest_unit(place, currency, amount):
    opened = place.checkout(currency=currency, amount_minor=amount)

    assert (opened.amount_minor, opened.currency) == (amount, currency)


@pytest.mark.parametrize(("currency", "amount"), [("usd", 49), ("jpy", 49), ("gbp", 29)])
def test_too_little_is_refused(place, currency, amount):
    with pytest.raises(PaymentRejected) as refused:
        place.checkout(currency=currency, amount_minor=amount)

    assert refused.value.stripe_code == "amount_too_small"


def test_a_third_decimal_is_refused(place):
    with pytest.raises(PaymentRejected):
        place.checkout(currency="kwd", amount_minor=5001)


def test_a_card_may_be_saved_asked_about_and_taxed(place):
    opened = place.checkout(saves_card=True, asks_3ds=True, collects_tax=True)

    assert (opened.status, opened.tax_minor, opened.amount_minor) == ("open", 0, 2500)


def test_an_expired_session_says_so(place):
    opened = place.checkout()

    place.sdk.v1.checkout.sessions.expire(opened.id, {}, {"idempotency_key": place.name("expire")})

    assert place.door.checkout(session=opened.id).status == "expired"


def test_a_session_for_nobody_is_refused(place):
    with pytest.raises(PaymentRejected) as refused:
        place.checkout(customer="cus_nobody")

    assert refused.value.stripe_code == "resource_missing"


def test_sessions_are_listed_since_a_moment(place):
    since = place.just_before()
    opened = [place.checkout(), place.checkout()]

    listed = [one.id for one in place.door.checkouts_since(since=since)]

    assert [one for one in listed if one in {opened[0].id, opened[1].id}] == [opened[1].id, opened[0].id]
