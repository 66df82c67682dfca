"""The hosted pages say what they are, and each works once."""

import httpx
import pytest

from portal.integrations import stripe
from portal.integrations.stripe_types import AccountOrder, CheckoutOrder, CustomerOrder

ACCOUNT = AccountOrder(provider="prov_1", display_name="P", contact_email="p@example.com", country="DE")


@pytest.fixture
def checkout_url(shop) -> str:
    """A page that waits for a payment of 50.00."""
    door = stripe.payments()
    customer = door.create_customer(key="c", order=CustomerOrder("org_1", "Acme", "a@example.com"))
    order = CheckoutOrder(
        topup="topup_1",
        organization="org_1",
        customer=customer,
        amount_minor=5000,
        currency="usd",
        product_name="Credit",
        success_url="http://shop.test/done?s={CHECKOUT_SESSION_ID}",
        cancel_url="http://shop.test/back",
    )
    return door.create_checkout(key="s", order=order).url


def onboarding_url(account: str, key: str = "l") -> str:
    """Return a fresh link to the form."""
    return stripe.payments().create_onboarding_link(
        key=key, account=account, return_url="http://shop.test/return", refresh_url="http://shop.test/refresh"
    )


@pytest.fixture
def account(shop) -> str:
    """An account whose owner has given no details yet."""
    return stripe.payments().create_account(key="a", order=ACCOUNT).id


def test_the_payment_page_says_that_it_is_simulated(checkout_url):
    page = httpx.get(checkout_url, trust_env=False)

    assert page.status_code == 200
    assert "Simulated, no money moves." in page.text
    assert "50.00 USD" in page.text


def test_a_payment_page_works_once(shop, checkout_url):
    session = checkout_url.rsplit("/", 1)[1]

    assert shop.post_page(checkout_url, "pay") == f"http://shop.test/done?s={session}"

    assert httpx.post(checkout_url, data={"action": "pay"}, trust_env=False).status_code == 410
    assert len(shop.double.store.all("charge")) == 1


def test_leaving_pays_nothing(shop, checkout_url):
    assert shop.post_page(checkout_url, "leave") == "http://shop.test/back"

    assert httpx.get(checkout_url, trust_env=False).status_code == 200
    assert shop.double.store.all("charge") == []


def test_an_unknown_action_is_refused(checkout_url):
    assert httpx.post(checkout_url, data={"action": "steal"}, trust_env=False).status_code == 400


def test_the_onboarding_form_says_that_it_is_simulated(account):
    assert "Simulated, no money moves." in httpx.get(onboarding_url(account), trust_env=False).text


def test_a_used_onboarding_link_leads_to_the_refresh_url(shop, account):
    url = onboarding_url(account)
    assert shop.post_page(url, "leave") == "http://shop.test/return"

    assert httpx.get(url, trust_env=False).headers["location"] == "http://shop.test/refresh"
    assert shop.post_page(url, "complete") == "http://shop.test/refresh"
    assert stripe.payments().account(account=account).transfers_status == "restricted"


def test_a_late_onboarding_link_leads_to_the_refresh_url(shop, account):
    url = onboarding_url(account)
    shop.double.control("clock/advance", seconds=301)

    assert httpx.get(url, trust_env=False).headers["location"] == "http://shop.test/refresh"


def test_a_closed_account_gets_no_link(shop, account):
    shop.double.control("account", account=account, move="close")

    with pytest.raises(stripe.PaymentRejected):
        onboarding_url(account)
