"""A running stand-in, the door to it, and what buyers and providers do at its pages."""

from dataclasses import dataclass
from datetime import UTC, datetime

import httpx
import pytest

from portal.integrations import stripe
from portal.integrations.stripe_types import (
    AccountOrder,
    Checkout,
    CheckoutOrder,
    CustomerOrder,
    Payment,
    PaymentOrder,
    Payments,
)
from portal.sandbox.stripe_double.server import StripeDouble

ALWAYS = datetime(2020, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class Till:
    """A buyer and a provider at one stand-in."""

    double: StripeDouble
    door: Payments
    number: int = 0

    def key(self) -> str:
        """Return a key that nobody used."""
        self.number += 1
        return f"key-{self.number}"

    def open(self, *, amount: int = 2500, currency: str = "usd", **wishes: bool) -> Checkout:
        """Open a page for a fresh customer."""
        customer = self.door.create_customer(key=self.key(), order=CustomerOrder("org_1", "Acme", "a@example.com"))
        order = CheckoutOrder(
            topup=f"topup_{self.key()}",
            organization="org_1",
            customer=customer,
            amount_minor=amount,
            currency=currency,
            product_name="Credit",
            success_url="http://shop.test/done",
            cancel_url="http://shop.test/back",
            **wishes,
        )
        return self.door.create_checkout(key=self.key(), order=order)

    def press(self, url: str, action: str, **fields: str) -> httpx.Response:
        """Press a button on a hosted page."""
        return httpx.post(url, data={"action": action, **fields}, trust_env=False)

    def pay(self, card: str = "4242424242424242", **wishes: bool) -> Checkout:
        """Pay a fresh session by a card that asks nothing; return the session."""
        opened = self.open(**wishes)
        self.press(opened.url, "pay", card=card)
        return self.door.checkout(session=opened.id)

    def charge(self, customer: str, card: str, *, amount: int = 900, currency: str = "usd") -> Payment:
        """Charge a saved card while its owner is away."""
        order = PaymentOrder(f"topup_{self.key()}", "org_1", customer, card, amount, currency)
        return self.door.charge_card(key=self.key(), order=order)

    def account(self, move: str = "complete", *, country: str = "DE", **more: str) -> str:
        """Open an account and move it on."""
        order = AccountOrder("prov_1", "Node", "node@example.com", country)
        account = self.door.create_account(key=self.key(), order=order).id
        if move:
            self.double.control("account", account=account, move=move, **more)
        return account

    def balance(self, account: str = "", currency: str = "usd") -> int:
        """Return everything that lies at Stripe."""
        found = [one for one in self.door.balances(account=account) if one.currency == currency]
        return sum(one.available_minor + one.pending_minor for one in found)

    def told(self) -> list[str]:
        """Return the types of the events that wait, oldest first, and forget them."""
        waiting = self.double.pending()
        for one in waiting:
            self.double.hooks.done(one.number)
        return [one.type for one in waiting]


@pytest.fixture
def till(shop) -> Till:
    """People at the stand-in."""
    return Till(shop.double, stripe.payments())
