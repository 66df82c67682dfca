"""What each kind of answer means for the money, through the real client against the stand-in."""

from datetime import timedelta

import pytest

from portal.core import clock
from portal.integrations import stripe
from portal.integrations.stripe_errors import (
    InsufficientFunds,
    PaymentOutcomeUnknown,
    PaymentRateLimited,
    PaymentRejected,
    PaymentsNotConfigured,
)
from portal.integrations.stripe_types import AccountOrder, CustomerOrder, TransferOrder

ALL_TRIES = 3
CUSTOMER = CustomerOrder(organization="org_1", name="Acme", email="a@example.com")


@pytest.fixture
def account(shop) -> str:
    """An account that may receive transfers."""
    order = AccountOrder(provider="prov_1", display_name="P", contact_email="p@example.com", country="DE")
    made = stripe.payments().create_account(key="account:1", order=order).id
    shop.double.control("account", account=made, move="complete")
    return made


def order(account: str, **changes) -> TransferOrder:
    """Return a transfer of 10.00."""
    fields = {
        "amount_minor": 1000,
        "currency": "usd",
        "destination": account,
        "group": "payout_1",
        "payout": "payout_1",
        "provider": "prov_1",
    }
    return TransferOrder(**(fields | changes))


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ({"kind": "429"}, PaymentRateLimited),
        ({"kind": "409", "count": ALL_TRIES}, PaymentOutcomeUnknown),
        ({"kind": "500", "count": ALL_TRIES}, PaymentOutcomeUnknown),
        ({"kind": "500", "when": "after", "count": ALL_TRIES}, PaymentOutcomeUnknown),
        ({"kind": "reset", "count": ALL_TRIES}, PaymentOutcomeUnknown),
        ({"kind": "reset", "when": "after", "count": ALL_TRIES}, PaymentOutcomeUnknown),
        ({"kind": "timeout", "count": ALL_TRIES}, PaymentOutcomeUnknown),
    ],
    ids=str,
)
def test_failures(shop, account, fault, error):
    shop.fund(5000)
    shop.double.control("fail", path="/v1/transfers", **fault)

    with pytest.raises(error):
        stripe.payments().create_transfer(key="payout:1:1", order=order(account))


def test_one_lost_connection_heals_by_itself_and_moves_the_money_once(shop, account):
    shop.fund(5000)
    shop.double.control("fail", path="/v1/transfers", kind="reset", when="after")

    made = stripe.payments().create_transfer(key="payout:1:1", order=order(account))

    assert [one["id"] for one in shop.double.store.all("transfer")] == [made.id]


def test_too_little_money_is_a_word_of_its_own(shop, account):
    with pytest.raises(InsufficientFunds) as refused:
        stripe.payments().create_transfer(key="payout:1:1", order=order(account))

    assert refused.value.stripe_code == "balance_insufficient"


def test_another_destination_is_a_refusal(shop):
    shop.fund(5000)

    with pytest.raises(PaymentRejected) as refused:
        stripe.payments().create_transfer(key="payout:1:1", order=order("acct_nobody"))

    assert (refused.value.stripe_code, refused.value.param) == ("resource_missing", "destination")
    assert not isinstance(refused.value, InsufficientFunds)


def test_the_same_key_with_another_amount_says_nothing_about_the_first_call(shop, account):
    shop.fund(5000)
    stripe.payments().create_transfer(key="payout:1:1", order=order(account))

    with pytest.raises(PaymentOutcomeUnknown):
        stripe.payments().create_transfer(key="payout:1:1", order=order(account, amount_minor=999))

    assert len(shop.double.store.all("transfer")) == 1


def test_a_key_stripe_does_not_know_is_a_refusal(shop, settings):
    settings.STRIPE_API_KEY = "pk_test_wrong"

    with pytest.raises(PaymentRejected):
        stripe.payments().create_customer(key="customer:1", order=CUSTOMER)


def test_without_a_key_nothing_is_tried(settings):
    settings.STRIPE_API_KEY = ""

    with pytest.raises(PaymentsNotConfigured):
        stripe.payments()


@pytest.mark.parametrize("key", ["sk_live_secret", "rk_live_secret"])
def test_a_live_key_never_leaves_for_another_host(shop, settings, key):
    settings.STRIPE_API_KEY = key

    with pytest.raises(PaymentsNotConfigured):
        stripe.payments()


def test_lists_are_read_to_their_end(shop, account):
    shop.fund(1_000_000)
    for number in range(103):
        stripe.payments().create_transfer(key=f"payout:1:{number}", order=order(account, amount_minor=100 + number))

    found = stripe.payments().transfers_of(group="payout_1")

    assert sorted(one.amount_minor for one in found) == list(range(100, 203))


def test_stripes_own_books(shop, account):
    shop.fund(5000)
    stripe.payments().create_transfer(key="payout:1:1", order=order(account))
    door = stripe.payments()

    movements = door.movements(since=clock.now() - timedelta(hours=1))

    assert [(one.type, one.net_minor) for one in movements] == [("topup", 5000), ("transfer", -1000)]
    assert [(one.currency, one.available_minor, one.pending_minor) for one in door.balances()] == [("usd", 4000, 0)]
    assert [(one.currency, one.available_minor) for one in door.balances(account=account)] == [("usd", 1000)]
    assert door.platform().default_currency == "usd"
