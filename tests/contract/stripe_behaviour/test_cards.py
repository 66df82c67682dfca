"""Saved cards, and charges of them while their owner is away."""

import pytest

from portal.integrations.stripe_errors import CardDeclined, PaymentRejected


def test_a_saved_card_is_listed_until_it_is_forgotten(place):
    customer = place.customer()
    card = place.saved(customer)

    (seen,) = place.door.saved_cards(customer=customer)
    assert (seen.id, seen.brand, seen.last4, seen.country) == (card, "visa", "4242", "US")

    place.door.forget_card(key=place.name("forget"), card=card)
    assert place.door.saved_cards(customer=customer) == []


def test_one_number_has_one_fingerprint_at_every_customer(place):
    customers = [place.customer(), place.customer(), place.customer()]
    for customer, method in zip(customers, ["pm_card_visa", "pm_card_visa", "pm_card_mastercard"], strict=True):
        place.saved(customer, method)

    first, second, other = [place.door.saved_cards(customer=customer)[0].fingerprint for customer in customers]

    assert first == second != other


def test_a_card_that_its_bank_refuses_cannot_be_saved(place):
    customer = place.customer()

    with pytest.raises(Exception, match="declined"):
        place.saved(customer, "pm_card_visa_chargeDeclined")

    assert place.door.saved_cards(customer=customer) == []


def test_a_saved_card_is_charged_without_its_owner(place):
    customer = place.customer()
    order = place.order(customer, place.saved(customer))

    paid = place.door.charge_card(key=f"topup:{order.topup}", order=order)

    assert (paid.status, paid.amount_minor, paid.received_minor, paid.currency) == ("succeeded", 2500, 2500, "usd")
    assert (paid.customer, paid.reference, paid.is_live) == (customer, order.topup, False)
    assert (paid.card.last4, paid.failure_code) == ("4242", "")
    assert paid.charge
    assert place.eventually(lambda: place.door.payment(payment=paid.id).fee_minor) > 0


@pytest.mark.parametrize(
    ("method", "code"),
    [
        ("pm_card_chargeCustomerFail", "card_declined"),
        ("pm_card_authenticationRequired", "authentication_required"),
    ],
)
def test_a_refused_charge_is_kept_with_its_reason(place, method, code):
    customer = place.customer()
    order = place.order(customer, place.saved(customer, method))

    with pytest.raises(CardDeclined) as refused:
        place.door.charge_card(key=f"topup:{order.topup}", order=order)

    assert (refused.value.stripe_code, refused.value.needs_owner) == (code, code == "authentication_required")
    kept = place.door.payment(payment=refused.value.payment)
    assert (kept.status, kept.received_minor, kept.failure_code) == ("requires_payment_method", 0, code)
    assert (kept.reference, kept.card.id) == (order.topup, order.card)


def test_a_refusal_is_given_again_under_its_key(place):
    customer = place.customer()
    order = place.order(customer, place.saved(customer, "pm_card_chargeCustomerFail"))
    tried = []
    for _ in range(2):
        with pytest.raises(CardDeclined) as refused:
            place.door.charge_card(key=f"topup:{order.topup}", order=order)
        tried.append(refused.value.payment)

    assert tried[0] == tried[1]
    assert len(place.door.payments_of(customer=customer, since=place.just_before())) == 1


def test_another_customers_card_cannot_be_charged(place):
    order = place.order(place.customer(), place.saved(place.customer()))

    with pytest.raises(PaymentRejected):
        place.door.charge_card(key=f"topup:{order.topup}", order=order)


def test_a_forgotten_card_cannot_be_charged(place):
    customer = place.customer()
    order = place.order(customer, place.saved(customer))
    place.door.forget_card(key=place.name("forget"), card=order.card)

    with pytest.raises(PaymentRejected):
        place.door.charge_card(key=f"topup:{order.topup}", order=order)


@pytest.mark.parametrize(("currency", "amount"), [("jpy", 500), ("kwd", 5000)])
def test_a_charge_is_in_the_currencys_own_smallest_unit(place, currency, amount):
    paid = place.charge(amount=amount, currency=currency)

    assert (paid.received_minor, paid.currency) == (amount, currency)


def test_payments_are_listed_newest_first_and_by_customer(place):
    since, customer = place.just_before(), place.customer()
    card = place.saved(customer)
    made = [
        place.door.charge_card(key=f"topup:{order.topup}", order=order).id
        for order in (place.order(customer, card), place.order(customer, card))
    ]
    other = place.charge().id

    assert [one.id for one in place.door.payments_of(customer=customer, since=since)] == made[::-1]
    assert {*made, other} <= {one.id for one in place.door.payments_since(since=since)}
