"""A restricted key may do what it was given, and the refusal names what is missing."""

import pytest
from django.test import override_settings

from portal.integrations import stripe
from portal.integrations.stripe_errors import PermissionMissing
from portal.integrations.stripe_types import CustomerOrder, RefundOrder
from portal.sandbox.stripe_double.faults import Refusal

KEY = "rk_test_pool"


@pytest.fixture
def narrow(till):
    """Return the door of a restricted key."""

    def make(**permissions: str):
        till.double.control("key", key=KEY, **permissions)
        return stripe.payments()

    with override_settings(STRIPE_API_KEY=KEY):
        yield make


def test_a_missing_permission_is_named(till, narrow):
    paid = till.pay()
    door = narrow(charge="read", payment_intent="read")

    assert door.payment(payment=paid.payment_intent).charge == paid.charge
    with pytest.raises(PermissionMissing) as refused:
        door.create_refund(key="r", order=RefundOrder("refund_1", "org_1", paid.charge, 100, "usd"))

    assert "rak_charge_write" in refused.value.message
    assert till.double.store.all("refund") == []


def test_writing_includes_reading(narrow):
    door = narrow(customer="write", payment_method="write")
    customer = door.create_customer(key="c", order=CustomerOrder("org_1", "Acme", "a@example.com"))

    assert door.saved_cards(customer=customer) == []


def test_a_refused_call_frees_its_key(till, narrow):
    order = CustomerOrder("org_1", "Acme", "a@example.com")
    with pytest.raises(PermissionMissing):
        narrow(customer="read").create_customer(key="c", order=order)

    assert narrow(customer="write").create_customer(key="c", order=order).startswith("cus_")


def test_an_unknown_permission_is_refused(till):
    with pytest.raises(Refusal):
        till.double.control("key", key=KEY, moon="write")


def test_a_key_without_a_list_may_do_everything(till):
    with override_settings(STRIPE_API_KEY="rk_test_other"):
        assert stripe.payments().platform().id.startswith("acct_")
