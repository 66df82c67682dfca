"""The one door to Stripe: `payments()` answers with what `Payments` promises, over stripe-python.

The API version is pinned, time-outs are set, and every write carries our own idempotency key.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from http import HTTPStatus
from typing import Literal

import stripe
from django.conf import settings
from stripe.params.checkout import SessionCreateParams

from portal.integrations import stripe_reading as reading
from portal.integrations import stripe_webhooks
from portal.integrations.stripe_errors import (
    InsufficientFunds,
    PaymentOutcomeUnknown,
    PaymentRateLimited,
    PaymentRejected,
    PaymentsNotConfigured,
)
from portal.integrations.stripe_http import HttpxTransport
from portal.integrations.stripe_types import (
    Account,
    AccountOrder,
    Balance,
    BankPayout,
    Checkout,
    CheckoutOrder,
    CustomerOrder,
    Event,
    Movement,
    Payments,
    Platform,
    Transfer,
    TransferOrder,
)

API_VERSION = "2026-05-27.dahlia"
STRIPE_HOST = "https://api.stripe.com"
_RETRIES = 2
_PAGE = 100
_AccountField = Literal["configuration.recipient", "identity", "requirements", "defaults"]
_ACCOUNT_FIELDS: tuple[_AccountField, ...] = ("configuration.recipient", "identity", "requirements", "defaults")
_REFUSED = range(HTTPStatus.BAD_REQUEST, HTTPStatus.INTERNAL_SERVER_ERROR)
_CHECKOUT_FIELDS = ["payment_intent.latest_charge.balance_transaction"]


def payments() -> Payments:
    """Return the configured door. Raises PaymentsNotConfigured."""
    key, base = settings.STRIPE_API_KEY, settings.STRIPE_API_BASE
    if not key:
        raise PaymentsNotConfigured(
            "Stripe is not set up here", fix="set STRIPE_API_KEY and run `manage.py stripe_doctor`"
        )
    if is_live_key(key) and base != STRIPE_HOST:
        raise PaymentsNotConfigured(
            f"a live key may only speak to {STRIPE_HOST}", fix="unset STRIPE_API_BASE or use a test key"
        )
    return _connect(key, base, settings.STRIPE_TIMEOUT_S)


def is_live_key(key: str) -> bool:
    """Tell whether the key moves real money."""
    return key.startswith(("sk_live_", "rk_live_"))


def is_live_mode() -> bool:
    """Tell whether this deployment's objects must carry `livemode: true`."""
    return is_live_key(settings.STRIPE_API_KEY)


_opening = threading.Lock()
_doors: dict[tuple[str, str, int], tuple["StripePayments", HttpxTransport]] = {}


def _connect(key: str, base: str, timeout_s: int) -> "StripePayments":
    """Return the process's one client for these settings."""
    name = (key, base, timeout_s)
    with _opening:
        if name not in _doors:
            transport = HttpxTransport(timeout_s=timeout_s, is_local=base != STRIPE_HOST)
            client = stripe.StripeClient(
                key,
                stripe_version=API_VERSION,
                base_addresses={"api": base},
                max_network_retries=_RETRIES,
                http_client=transport,
            )
            _doors[name] = StripePayments(client), transport
        return _doors[name][0]


def forget_connections() -> None:
    """Close every connection to Stripe; the next call opens a new one."""
    with _opening:
        for _, transport in _doors.values():
            transport.close()
        _doors.clear()


@contextmanager
def _outcome() -> Iterator[None]:
    """Translate the SDK's errors into what they mean for the money."""
    try:
        yield
    except stripe.RateLimitError as error:
        raise PaymentRateLimited(_message(error), stripe_code=error.code or "rate_limit") from error
    except (stripe.APIConnectionError, stripe.IdempotencyError) as error:
        raise PaymentOutcomeUnknown(_message(error), stripe_code=error.code or type(error).__name__) from error
    except stripe.StripeError as error:
        raise _refusal(error) from error


def _refusal(error: stripe.StripeError) -> PaymentRejected | PaymentOutcomeUnknown:
    status, code = error.http_status or 0, _code(error)
    param = getattr(error, "param", None)
    if code == "balance_insufficient":
        return InsufficientFunds(_message(error), stripe_code=code, param=param)
    if status in _REFUSED and status != HTTPStatus.CONFLICT:
        return PaymentRejected(_message(error), stripe_code=code, param=param)
    return PaymentOutcomeUnknown(_message(error), stripe_code=code)


def _code(error: stripe.StripeError) -> str:
    if error.code:
        return error.code
    body = error.json_body if isinstance(error.json_body, dict) else {}
    details = body.get("error", {})
    return str(details.get("code") or details.get("type") or type(error).__name__)


def _message(error: stripe.StripeError) -> str:
    return (error.user_message or type(error).__name__)[:400]


class StripePayments:
    """`Payments` over stripe-python's client."""

    def __init__(self, client: stripe.StripeClient) -> None:
        self._v1 = client.v1
        self._v2 = client.v2

    def create_customer(self, *, key: str, order: CustomerOrder) -> str:
        """Create the customer and return its id."""
        with _outcome():
            made = self._v1.customers.create(
                {"name": order.name, "email": order.email, "metadata": {"organization": order.organization}},
                {"idempotency_key": key},
            )
        return made.id

    def create_checkout(self, *, key: str, order: CheckoutOrder) -> Checkout:
        """Open a hosted Checkout page."""
        with _outcome():
            made = self._v1.checkout.sessions.create(_checkout_params(order), {"idempotency_key": key})
        return reading.checkout(made.to_dict())

    def checkout(self, *, session: str) -> Checkout:
        """Return the session with its payment and fee."""
        with _outcome():
            found = self._v1.checkout.sessions.retrieve(session, {"expand": _CHECKOUT_FIELDS})
        return reading.checkout(found.to_dict())

    def create_account(self, *, key: str, order: AccountOrder) -> Account:
        """Create an account that only receives transfers; the platform carries fees and losses."""
        with _outcome():
            made = self._v2.core.accounts.create(
                {
                    "contact_email": order.contact_email,
                    "display_name": order.display_name,
                    "dashboard": "express",
                    "identity": {"country": order.country},
                    "configuration": {
                        "recipient": {"capabilities": {"stripe_balance": {"stripe_transfers": {"requested": True}}}}
                    },
                    "defaults": {
                        "responsibilities": {"fees_collector": "application", "losses_collector": "application"}
                    },
                    "metadata": {"provider_id": order.provider},
                    "include": list(_ACCOUNT_FIELDS),
                },
                {"idempotency_key": key},
            )
        return reading.account(made.to_dict())

    def account(self, *, account: str) -> Account:
        """Return the account."""
        with _outcome():
            found = self._v2.core.accounts.retrieve(account, {"include": list(_ACCOUNT_FIELDS)})
        return reading.account(found.to_dict())

    def create_onboarding_link(self, *, key: str, account: str, return_url: str, refresh_url: str) -> str:
        """Return the URL of a single-use hosted onboarding page."""
        with _outcome():
            link = self._v2.core.account_links.create(
                {
                    "account": account,
                    "use_case": {
                        "type": "account_onboarding",
                        "account_onboarding": {
                            "configurations": ["recipient"],
                            "refresh_url": refresh_url,
                            "return_url": return_url,
                        },
                    },
                },
                {"idempotency_key": key},
            )
        return link.url

    def create_transfer(self, *, key: str, order: TransferOrder) -> Transfer:
        """Move money from the platform's balance to the account's."""
        with _outcome():
            made = self._v1.transfers.create(
                {
                    "amount": order.amount_minor,
                    "currency": order.currency,
                    "destination": order.destination,
                    "transfer_group": order.group,
                    "metadata": {"payout": order.payout, "provider": order.provider},
                },
                {"idempotency_key": key},
            )
        return reading.transfer(made.to_dict())

    def transfer(self, *, transfer: str) -> Transfer:
        """Return the transfer."""
        with _outcome():
            return reading.transfer(self._v1.transfers.retrieve(transfer).to_dict())

    def transfers_of(self, *, group: str) -> list[Transfer]:
        """Return every transfer that carries this group."""
        with _outcome():
            found = self._v1.transfers.list({"transfer_group": group, "limit": _PAGE})
            return [reading.transfer(one.to_dict()) for one in found.auto_paging_iter()]

    def bank_payout(self, *, account: str, payout: str) -> BankPayout:
        """Return a connected account's payout to its bank and the transfers that it carried."""
        with _outcome():
            found = self._v1.payouts.retrieve(payout, None, {"stripe_account": account})
            lines = self._v1.balance_transactions.list(
                {"payout": payout, "expand": ["data.source"], "limit": _PAGE}, {"stripe_account": account}
            )
            carried = [line.to_dict() for line in lines.auto_paging_iter()]
        return reading.bank_payout(found.to_dict(), carried=carried)

    def balances(self, *, account: str = "") -> list[Balance]:
        """Return the platform's balance, or a connected account's."""
        with _outcome():
            options: stripe.RequestOptions = {"stripe_account": account} if account else {}
            return reading.balances(self._v1.balance.retrieve(None, options).to_dict())

    def movements(self, *, since: datetime) -> list[Movement]:
        """Return the platform's balance transactions since then, oldest first."""
        with _outcome():
            lines = self._v1.balance_transactions.list({"created": {"gte": int(since.timestamp())}, "limit": _PAGE})
            return [reading.movement(line.to_dict()) for line in lines.auto_paging_iter()][::-1]

    def events(self, *, since: datetime, types: tuple[str, ...]) -> list[tuple[Event, bytes]]:
        """Return the platform's events of these types since then, v1 and v2, each with its body."""
        snapshots = [name for name in types if not name.startswith("v2.")]
        thin = [name for name in types if name.startswith("v2.")]
        found: list[dict[str, object]] = []
        with _outcome():
            if snapshots:
                listed = self._v1.events.list(
                    {"created": {"gte": int(since.timestamp())}, "types": snapshots, "limit": _PAGE}
                )
                found += [event.to_dict() for event in listed.auto_paging_iter()]
            if thin:
                moment = since.isoformat().replace("+00:00", "Z")
                pages = self._v2.core.events.list({"created": {"gte": moment}, "types": thin, "limit": _PAGE})
                found += [event.to_dict() for event in pages.auto_paging_iter()]  # type: ignore[no-untyped-call]  # the SDK leaves it untyped
        return [(stripe_webhooks.read(body), json.dumps(body).encode()) for body in found]

    def platform(self) -> Platform:
        """Return the operator's own account and what its automatic payouts leave behind."""
        with _outcome():
            own = self._v1.accounts.retrieve_current()
            interval, kept = reading.minimum_balances(self._v1.balance_settings.retrieve().to_dict())
        return Platform(
            id=own.id,
            country=(own.country or "").upper(),
            default_currency=own.default_currency or "",
            charges_enabled=bool(own.charges_enabled),
            payouts_enabled=bool(own.payouts_enabled),
            payout_interval=interval,
            minimum_balance_minor=kept,
        )


def _checkout_params(order: CheckoutOrder) -> SessionCreateParams:
    names = {"topup": order.topup, "organization": order.organization}
    return {
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
        "invoice_creation": {"enabled": True},
        "success_url": order.success_url,
        "cancel_url": order.cancel_url,
    }
