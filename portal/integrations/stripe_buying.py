"""What the door does about buyers: customers, Checkout, saved cards and charges of them."""

from collections.abc import Iterator
from datetime import datetime

from stripe.params import PaymentIntentCreateParams
from stripe.params.checkout import SessionCreateParams

from portal.integrations import stripe_payment_reading as reading
from portal.integrations.stripe_outcome import StripeCalls, outcome
from portal.integrations.stripe_payment_types import (
    Checkout,
    CheckoutOrder,
    CustomerOrder,
    Payment,
    PaymentOrder,
    SavedCard,
)

_PAGE = 100
_CHARGE = "latest_charge.balance_transaction"
_CHECKOUT_FIELDS = [f"payment_intent.{_CHARGE}", "invoice"]


class BuyingCalls(StripeCalls):
    """The buyers' part of `Payments`."""

    def create_customer(self, *, key: str, order: CustomerOrder) -> str:
        """Create the customer and return its id."""
        with outcome():
            made = self._v1.customers.create(
                {"name": order.name, "email": order.email, "metadata": {"organization": order.organization}},
                {"idempotency_key": key},
            )
        return made.id

    def create_checkout(self, *, key: str, order: CheckoutOrder) -> Checkout:
        """Open a hosted Checkout page."""
        with outcome():
            made = self._v1.checkout.sessions.create(_checkout_params(order), {"idempotency_key": key})
        return reading.checkout(made.to_dict())

    def checkout(self, *, session: str) -> Checkout:
        """Return the session with its payment, fee, tax and invoice."""
        with outcome():
            found = self._v1.checkout.sessions.retrieve(session, {"expand": _CHECKOUT_FIELDS})
        return reading.checkout(found.to_dict())

    def checkouts_since(self, *, since: datetime) -> Iterator[Checkout]:
        """Return the sessions that were opened since then, newest first."""
        with outcome():
            found = self._v1.checkout.sessions.list(
                {
                    "created": {"gte": int(since.timestamp())},
                    "limit": _PAGE,
                    "expand": [f"data.{field}" for field in _CHECKOUT_FIELDS],
                }
            )
            for one in found.auto_paging_iter():
                yield reading.checkout(one.to_dict())

    def saved_cards(self, *, customer: str) -> list[SavedCard]:
        """Return the cards that this customer has saved, newest first."""
        with outcome():
            found = self._v1.customers.payment_methods.list(customer, {"type": "card", "limit": _PAGE})
            cards = [reading.card(one.to_dict()) for one in found.auto_paging_iter()]
        return [card for card in cards if card is not None]

    def forget_card(self, *, key: str, card: str) -> None:
        """Take the card off its customer, for good."""
        with outcome():
            self._v1.payment_methods.detach(card, {}, {"idempotency_key": key})

    def charge_card(self, *, key: str, order: PaymentOrder) -> Payment:
        """Charge a saved card while its owner is away. Raises CardDeclined."""
        with outcome():
            made = self._v1.payment_intents.create(_payment_params(order), {"idempotency_key": key})
        return reading.payment(made.to_dict())

    def payment(self, *, payment: str) -> Payment:
        """Return the payment with its charge and fee."""
        with outcome():
            found = self._v1.payment_intents.retrieve(payment, {"expand": [_CHARGE]})
        return reading.payment(found.to_dict())

    def payments_of(self, *, customer: str, since: datetime) -> list[Payment]:
        """Return this customer's payments since then, newest first."""
        with outcome():
            found = self._v1.payment_intents.list(
                {
                    "customer": customer,
                    "created": {"gte": int(since.timestamp())},
                    "limit": _PAGE,
                    "expand": [f"data.{_CHARGE}"],
                }
            )
            return [reading.payment(one.to_dict()) for one in found.auto_paging_iter()]

    def payments_since(self, *, since: datetime) -> Iterator[Payment]:
        """Return every payment since then, newest first."""
        with outcome():
            found = self._v1.payment_intents.list(
                {"created": {"gte": int(since.timestamp())}, "limit": _PAGE, "expand": [f"data.{_CHARGE}"]}
            )
            for one in found.auto_paging_iter():
                yield reading.payment(one.to_dict())


def _payment_params(order: PaymentOrder) -> PaymentIntentCreateParams:
    return {
        "amount": order.amount_minor,
        "currency": order.currency,
        "customer": order.customer,
        "payment_method": order.card,
        "off_session": True,
        "confirm": True,
        # Nobody is there to be sent to another page.
        "automatic_payment_methods": {"enabled": True, "allow_redirects": "never"},
        "metadata": {"topup": order.topup, "organization": order.organization},
        "expand": [_CHARGE],
    }


def _checkout_params(order: CheckoutOrder) -> SessionCreateParams:
    names = {"topup": order.topup, "organization": order.organization}
    params: SessionCreateParams = {
        "mode": "payment",
        "customer": order.customer,
        "client_reference_id": order.topup,
        "line_items": [
            {
                "quantity": 1,
                "price_data": {
                    "currency": order.currency,
                    "unit_amount": order.amount_minor,
                    "product_data": {"name": order.product_name},
                },
            }
        ],
        "metadata": names,
        "payment_intent_data": {"metadata": names},
        "invoice_creation": {"enabled": True, "invoice_data": {"metadata": names}},
        "success_url": order.success_url,
        "cancel_url": order.cancel_url,
    }
    if order.saves_card:
        params["payment_intent_data"]["setup_future_usage"] = "off_session"
    if order.asks_3ds:
        params["payment_method_options"] = {"card": {"request_three_d_secure": "any"}}
    if order.collects_tax:
        params["line_items"][0]["price_data"]["tax_behavior"] = "exclusive"
        params["automatic_tax"] = {"enabled": True}
        params["tax_id_collection"] = {"enabled": True}
        # Stripe asks for both: what the buyer types becomes the customer's address and name.
        params["customer_update"] = {"address": "auto", "name": "auto"}
    return params
