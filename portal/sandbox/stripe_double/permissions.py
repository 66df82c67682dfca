"""Restricted keys: which resource a call needs, and Stripe's answer where the key may not."""

import json
import re

from portal.sandbox.stripe_double.faults import Refusal, invalid
from portal.sandbox.stripe_double.store import Store

READ, WRITE = "read", "write"
_ALLOWED = frozenset({"none", READ, WRITE})
# First match wins; the words are those of the dashboard's list of permissions.
_RESOURCES = (
    (r"/v1/customers/[^/]+/payment_methods", "payment_method"),
    (r"/v1/customers", "customer"),
    (r"/v1/payment_methods", "payment_method"),
    (r"/v1/checkout/sessions", "checkout_session"),
    (r"/v1/payment_intents", "payment_intent"),
    (r"/v1/charges", "charge"),
    (r"/v1/refunds", "charge"),
    (r"/v1/disputes", "dispute"),
    (r"/v1/radar", "radar"),
    (r"/v1/invoices", "invoice"),
    (r"/v1/transfers", "transfer"),
    (r"/v1/payouts", "payout"),
    (r"/v1/balance_settings", "balance_settings"),
    (r"/v1/balance_transactions", "balance_transaction_source"),
    (r"/v1/balance", "balance"),
    (r"/v1/events|/v2/core/events", "event"),
    (r"/v1/webhook_endpoints", "webhook"),
    (r"/v2/core/event_destinations", "event_destination"),
    (r"/v1/accounts/[^/]+/login_links", "login_link"),
    (r"/v1/accounts/[^/]+/external_accounts", "external_account"),
    (r"/v1/account", "connected_account"),
    (r"/v2/core/account_links", "account_link"),
    (r"/v2/core/accounts", "v2_account"),
)
RESOURCES = tuple(dict.fromkeys(name for _, name in _RESOURCES))


def restrict(store: Store, key: str, permissions: dict[str, str]) -> None:
    """Give a restricted key its permissions; what is not named is `none`. Raises Refusal."""
    for resource, level in permissions.items():
        if resource not in RESOURCES or level not in _ALLOWED:
            raise invalid(f"permissions are {', '.join(RESOURCES)}, each none, read or write", param=resource)
    store.set_meta(f"permissions:{key}", json.dumps(permissions))


def check(store: Store, key: str, method: str, path: str) -> None:
    """Refuse a call that this key may not make; a key without a list may make all. Raises Refusal."""
    kept = store.meta(f"permissions:{key}")
    if not kept:
        return
    resource = next((name for pattern, name in _RESOURCES if re.match(pattern, path)), "unknown")
    level: str = json.loads(kept).get(resource, "none")
    needed = READ if method == "GET" else WRITE
    if level in {WRITE, needed}:
        return
    raise Refusal(
        403,
        "",
        f"The provided key '{key[:8]}***{key[-4:]}' does not have the required permissions for this endpoint."
        f" Having the 'rak_{resource}_{needed}' permission would allow this request to continue.",
        is_stored=False,
    )
