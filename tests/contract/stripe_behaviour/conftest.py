"""Where the same behaviour is looked at: at the stand-in always, at a real sandbox when STRIPE_TEST_KEY is set.

At the real Stripe: `STRIPE_TEST_KEY=sk_test_… pytest -m stripe_live tests/contract/stripe_behaviour`.
"""

import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
import stripe as sdk
from django.test import override_settings

from portal.integrations import stripe
from portal.integrations.stripe_http import HttpxTransport
from portal.integrations.stripe_types import Checkout, CheckoutOrder, CustomerOrder, Payment, PaymentOrder, Payments
from portal.sandbox.stripe_double.server import StripeDouble
from tests.factories.payouts import running_double

TEST_KEYS = ("sk_test_", "rk_test_")
PATIENCE_S = 60.0
PLATFORMS_OWN = 100_000  # a sandbox in use has money, so that refunds need not wait for any
Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Place:
    """One Stripe: our door to it, the SDK beside it for what only a buyer's browser would do, and its clock."""

    door: Payments
    sdk: sdk.StripeClient
    double: StripeDouble | None

    def name(self, kind: str) -> str:
        """Return a reference that nobody used before."""
        return f"{kind}_{uuid.uuid4().hex[:20]}"

    def just_before(self) -> datetime:
        """Return a moment before everything that this test does."""
        return datetime.now(UTC) - timedelta(minutes=2)

    def needs_double(self, why: str) -> StripeDouble:
        """Return the stand-in, or skip: nobody can do this to the real one."""
        if self.double is None:
            pytest.skip(f"only the stand-in can be told to: {why}")
        return self.double

    def eventually(self, look: Callable[[], Found]) -> Found:
        """Look until there is something; the real Stripe does some things a moment later."""
        until = time.monotonic() + PATIENCE_S
        while not (found := look()):
            assert time.monotonic() < until, "it did not happen"
            time.sleep(1)
        return found

    def customer(self) -> str:
        """Return a fresh customer."""
        organization = self.name("org")
        order = CustomerOrder(organization, "Acme", "buyer@example.com")
        return self.door.create_customer(key=f"customer:{organization}", order=order)

    def saved(self, customer: str, method: str = "pm_card_visa") -> str:
        """Save one of Stripe's test cards for the customer, as Checkout would."""
        return self.sdk.v1.payment_methods.attach(
            method, {"customer": customer}, {"idempotency_key": self.name("attach")}
        ).id

    def order(self, customer: str, card: str, *, amount: int = 2500, currency: str = "usd") -> PaymentOrder:
        """Return the order to charge a saved card."""
        return PaymentOrder(self.name("topup"), self.name("org"), customer, card, amount, currency)

    def charge(self, method: str = "pm_card_visa", *, amount: int = 2500, currency: str = "usd") -> Payment:
        """Let a fresh customer pay by a saved card."""
        customer = self.customer()
        order = self.order(customer, self.saved(customer, method), amount=amount, currency=currency)
        return self.door.charge_card(key=f"topup:{order.topup}", order=order)

    def checkout(self, **changes: object) -> Checkout:
        """Open a page for a fresh customer."""
        fields: dict[str, object] = {
            "topup": self.name("topup"),
            "organization": self.name("org"),
            "customer": self.customer(),
            "amount_minor": 2500,
            "currency": "usd",
            "product_name": "Credit",
            "success_url": "https://pool.example/done?s={CHECKOUT_SESSION_ID}",
            "cancel_url": "https://pool.example/back",
        }
        order = CheckoutOrder(**(fields | changes))
        return self.door.create_checkout(key=f"topup:{order.topup}", order=order)


@pytest.fixture
def double() -> Iterator[StripeDouble]:
    """A running stand-in; the test fails where a request or an answer broke Stripe's rules."""
    with running_double() as running:
        yield running


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.stripe_live)])
def place(request, monkeypatch) -> Iterator[Place]:
    """The stand-in, or a real sandbox where a key was given."""
    if request.param == "real":
        key, base, running = _real_key(), stripe.STRIPE_HOST, None
    else:
        running = request.getfixturevalue("double")
        key, base = "sk_test_behaviour", running.url
        running.control("fund", amount=PLATFORMS_OWN)
        monkeypatch.setattr("stripe.HTTPClient.INITIAL_DELAY", 0.01)
    transport = HttpxTransport(timeout_s=30, is_local=running is not None)
    with override_settings(STRIPE_API_KEY=key, STRIPE_API_BASE=base, STRIPE_TIMEOUT_S=30):
        yield Place(stripe.payments(), _client(key, base, transport), running)
    transport.close()
    stripe.forget_connections()


def _real_key() -> str:
    key = os.environ.get("STRIPE_TEST_KEY", "")
    if not key:
        pytest.skip("STRIPE_TEST_KEY is not set")
    if not key.startswith(TEST_KEYS):
        pytest.fail("STRIPE_TEST_KEY must be a key of a sandbox (sk_test_ or rk_test_)")
    return key


def _client(key: str, base: str, transport: HttpxTransport) -> sdk.StripeClient:
    return sdk.StripeClient(key, stripe_version=stripe.API_VERSION, base_addresses={"api": base}, http_client=transport)
