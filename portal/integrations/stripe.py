"""The one door to Stripe: `payments()` answers with what `Payments` promises, over stripe-python.

The API version is pinned, time-outs are set, and every write carries our own idempotency key.
"""

import threading
from datetime import timedelta

import stripe
from django.conf import settings

from portal.integrations.stripe_books import BookCalls
from portal.integrations.stripe_buying import BuyingCalls
from portal.integrations.stripe_errors import (
    CardDeclined,
    InsufficientFunds,
    PaymentOutcomeUnknown,
    PaymentRateLimited,
    PaymentRejected,
    PaymentsNotConfigured,
)
from portal.integrations.stripe_http import HttpxTransport
from portal.integrations.stripe_paying import PayingCalls
from portal.integrations.stripe_returning import ReturningCalls
from portal.integrations.stripe_types import Payments

__all__ = [
    "API_VERSION",
    "SAME_KEY_FOR",
    "SILENT_AFTER",
    "STRIPE_HOST",
    "CardDeclined",
    "InsufficientFunds",
    "PaymentOutcomeUnknown",
    "PaymentRateLimited",
    "PaymentRejected",
    "PaymentsNotConfigured",
    "StripePayments",
    "forget_connections",
    "is_live_key",
    "is_live_mode",
    "payments",
]

API_VERSION = "2026-05-27.dahlia"
STRIPE_HOST = "https://api.stripe.com"
_RETRIES = 2
# A call ends within its time-outs (STRIPE_TIMEOUT_S each), its retries and their pauses: a worker that has not said by
# then what came of it is taken for dead. One that answers later all the same is heard, and changes nothing twice.
SILENT_AFTER = timedelta(minutes=5)
# Stripe keeps a key for at least 24 h; the same call is made again only while it surely does.
SAME_KEY_FOR = timedelta(hours=20)


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


class StripePayments(BuyingCalls, ReturningCalls, PayingCalls, BookCalls):
    """`Payments` over stripe-python's client."""
