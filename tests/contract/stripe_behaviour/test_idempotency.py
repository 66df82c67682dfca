"""One key is one deed: the first answer again, other parameters refused, two callers at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from portal.integrations.stripe_errors import PaymentOutcomeUnknown, PaymentRejected
from portal.integrations.stripe_types import CustomerOrder


def test_the_same_key_gives_the_first_answer_again(place):
    organization = place.name("org")
    order = CustomerOrder(organization, "Acme", "a@example.com")

    first = place.door.create_customer(key=f"customer:{organization}", order=order)

    assert place.door.create_customer(key=f"customer:{organization}", order=order) == first


def test_other_parameters_under_the_same_key_are_refused(place):
    customer = place.customer()
    order = place.order(customer, place.saved(customer))
    paid = place.door.charge_card(key=f"topup:{order.topup}", order=order)

    with pytest.raises(PaymentOutcomeUnknown) as refused:
        place.door.charge_card(key=f"topup:{order.topup}", order=replace(order, amount_minor=2501))

    assert refused.value.stripe_code in {"IdempotencyError", "idempotency_error"}
    assert [one.id for one in place.door.payments_of(customer=customer, since=place.just_before())] == [paid.id]


def test_two_callers_at_once_charge_once(place):
    customer = place.customer()
    order = place.order(customer, place.saved(customer))

    def charge(_: int) -> str:
        try:
            return place.door.charge_card(key=f"topup:{order.topup}", order=order).id
        except PaymentOutcomeUnknown as error:
            return error.stripe_code

    with ThreadPoolExecutor(2) as pool:
        answers = set(pool.map(charge, range(2))) - {"idempotency_key_in_use"}

    (paid,) = place.door.payments_of(customer=customer, since=place.just_before())
    assert answers == {paid.id}


def test_a_refused_parameter_frees_its_key(place):
    customer, topup = place.customer(), place.name("topup")
    order = replace(place.order(customer, place.saved(customer)), topup=topup)
    with pytest.raises(PaymentRejected):
        place.door.charge_card(key=f"topup:{topup}", order=replace(order, card="pm_nobody"))

    # Stripe keeps the refusal of an act that began; a new try needs a new key.
    assert place.door.charge_card(key=f"topup:{topup}:2", order=order).status == "succeeded"
