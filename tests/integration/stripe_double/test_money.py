"""The stand-in's own books: pending becomes available by its clock, nothing is created or lost."""

from collections.abc import Iterator

import httpx
import pytest

from portal.sandbox.stripe_double.balances import available
from portal.sandbox.stripe_double.faults import Refusal
from portal.sandbox.stripe_double.server import StripeDouble
from tests.factories.payouts import DAY_S, running_double

HEADERS = {"authorization": "Bearer sk_test_x", "stripe-version": "2026-05-27.dahlia"}


@pytest.fixture
def double() -> Iterator[StripeDouble]:
    """A running stand-in."""
    with running_double() as running:
        yield running


def call(double, method, path, *, key="k", data=None, json=None, account="") -> dict:
    """Make a call and return its JSON."""
    headers = HEADERS | {"idempotency-key": key} | ({"stripe-account": account} if account else {})
    return httpx.request(method, double.url + path, data=data, json=json, headers=headers, trust_env=False).json()


def bought(double, amount: int) -> dict:
    """Sell credit for `amount` and return the session."""
    customer = call(double, "POST", "/v1/customers", key=f"customer-{amount}", data={"name": "Acme"})
    data = {
        "mode": "payment",
        "customer": customer["id"],
        "line_items[0][quantity]": "1",
        "line_items[0][price_data][currency]": "usd",
        "line_items[0][price_data][unit_amount]": str(amount),
        "line_items[0][price_data][product_data][name]": "Credit",
        "success_url": "http://shop.test/{CHECKOUT_SESSION_ID}",
    }
    session = call(double, "POST", "/v1/checkout/sessions", key=f"session-{amount}", data=data)
    answer = httpx.post(session["url"], data={"action": "pay"}, trust_env=False)
    assert answer.headers["location"] == f"http://shop.test/{session['id']}"
    return session


def account(double, move: str = "complete") -> str:
    """Open an account and move it on."""
    made = call(
        double,
        "POST",
        "/v2/core/accounts",
        key=f"account-{move}",
        json={
            "identity": {"country": "DE"},
            "configuration": {
                "recipient": {"capabilities": {"stripe_balance": {"stripe_transfers": {"requested": True}}}}
            },
        },
    )
    if move:
        double.control("account", account=made["id"], move=move)
    return made["id"]


def balance(double, account: str = "") -> tuple[int, int]:
    """Return available and pending."""
    seen = call(double, "GET", "/v1/balance", account=account)
    return seen["available"][0]["amount"], seen["pending"][0]["amount"]


def transfer(double, destination: str, amount: int, key: str = "t") -> dict:
    """Ask for a transfer."""
    data = {"amount": str(amount), "currency": "usd", "destination": destination}
    return call(double, "POST", "/v1/transfers", key=key, data=data)


def test_a_payment_is_pending_for_two_days(double):
    bought(double, 5000)
    assert balance(double) == (0, 4825)

    double.control("clock/advance", seconds=2 * DAY_S - 300)
    assert balance(double) == (0, 4825)
    double.control("clock/advance", seconds=301)

    assert balance(double) == (4825, 0)


def test_pending_money_cannot_be_transferred(double):
    bought(double, 5000)
    to = account(double)

    assert transfer(double, to, 100)["error"]["code"] == "balance_insufficient"
    assert balance(double) == (0, 4825)


def test_a_transfer_moves_the_money_and_conserves_it(double):
    bought(double, 5000)
    double.control("clock/advance", seconds=2 * DAY_S)
    to = account(double)

    made = transfer(double, to, 1500)

    assert (made["amount"], made["destination"]) == (1500, to)
    assert (balance(double), balance(double, to)) == ((3325, 0), (1500, 0))


@pytest.mark.parametrize(
    ("move", "code"),
    [
        ("", "insufficient_capabilities_for_transfer"),
        ("review", "insufficient_capabilities_for_transfer"),
        ("restrict", "insufficient_capabilities_for_transfer"),
        ("close", "account_invalid"),
    ],
)
def test_an_account_that_may_not_receive_is_refused(double, move, code):
    double.control("fund", amount=1000)

    assert transfer(double, account(double, move), 100)["error"]["code"] == code
    assert balance(double) == (1000, 0)


def test_a_reversal_takes_only_what_is_still_there(double):
    double.control("fund", amount=1000)
    to = account(double)
    made = transfer(double, to, 1000)
    double.control("reverse", transfer=made["id"], amount=400)
    assert (balance(double), balance(double, to)) == ((400, 0), (600, 0))
    double.control("bank/run")

    with pytest.raises(Refusal) as refused:
        double.control("reverse", transfer=made["id"])

    assert refused.value.code == "balance_insufficient"
    assert balance(double) == (400, 0)


def test_a_bank_that_refuses_gives_the_money_back_to_the_account(double):
    double.control("fund", amount=1000)
    to = account(double)
    transfer(double, to, 1000)
    payout = double.control("bank/run")["payouts"][0]
    assert available(double.store, "usd", account=to) == 0

    double.control("bank/end", account=to, payout=payout["id"], is_good=False)

    assert available(double.store, "usd", account=to) == 1000


def test_the_platforms_balance_can_be_drained(double):
    double.control("fund", amount=1000)

    assert double.control("drain", leave=1) == {"drained": 999}
    assert balance(double) == (1, 0)


def test_another_accounts_objects_are_not_there(double):
    session = bought(double, 5000)
    to = account(double)

    assert call(double, "GET", "/v1/events/evt_x", account=to)["error"]["code"] == "resource_missing"
    listed = call(double, "GET", "/v1/balance_transactions", account=to)
    assert (listed["data"], session["livemode"]) == ([], False)
