"""The platform's own account: who it is, what its automatic payouts leave behind, where its events go."""

import json
from collections.abc import Mapping
from typing import cast

from stripe import params
from stripe.params.v2 import core

from portal.sandbox.stripe_double.api import Call, page, route
from portal.sandbox.stripe_double.events import API_VERSION, CONNECT, PLATFORM, THIN, iso
from portal.sandbox.stripe_double.faults import Body
from portal.sandbox.stripe_double.hooks import Endpoint
from portal.sandbox.stripe_double.store import Store

PLATFORM_ACCOUNT = "acct_platform00000000"


@route("GET", "/v1/account", params.AccountRetrieveCurrentParams)
def read_platform(call: Call) -> Body:
    """Answer with the platform's own account."""
    return {
        "id": PLATFORM_ACCOUNT,
        "object": "account",
        "business_type": "company",
        "charges_enabled": not call.store.meta("charges_stopped"),
        "country": call.store.meta("country", "US"),
        "default_currency": call.store.meta("currency", "usd"),
        "details_submitted": True,
        "email": "platform@example.com",
        "metadata": {},
        "payouts_enabled": not call.store.meta("payouts_stopped"),
        "type": "standard",
    }


@route("GET", "/v1/balance_settings", params.BalanceSettingsRetrieveParams)
def read_balance_settings(call: Call) -> Body:
    """Answer with the platform's own payout settings."""
    return _settings(call.store)


@route("POST", "/v1/balance_settings", params.BalanceSettingsUpdateParams)
def update_balance_settings(call: Call) -> Body:
    """Change what stays behind and how often the platform is paid out."""
    interval = call.text("payments", "payouts", "schedule", "interval")
    if interval:
        call.store.set_meta("payout_interval", interval)
    kept = call.mapping("payments", "payouts", "minimum_balance_by_currency")
    if kept:
        call.store.set_meta("minimum_balances", json.dumps(_minimums(call.store) | kept))
    return _settings(call.store)


def _minimums(store: Store) -> Body:
    return cast("Body", json.loads(store.meta("minimum_balances", "{}")))


def _settings(store: Store) -> Body:
    kept = _minimums(store)
    if store.meta("minimum_balance"):
        kept = {store.meta("currency", "usd"): int(store.meta("minimum_balance"))} | kept
    return {
        "object": "balance_settings",
        "payments": {
            "debit_negative_balances": True,
            "payouts": {
                "minimum_balance_by_currency": kept or None,
                "schedule": {"interval": store.meta("payout_interval", "manual")},
                "statement_descriptor": None,
                "status": "enabled",
            },
            "settlement_timing": {"delay_days": 2},
        },
    }


def register(store: Store, endpoints: Mapping[str, Endpoint]) -> None:
    """Put the endpoints that this stand-in serves into its lists; one from an earlier run gets its new address."""
    for name, endpoint in sorted(endpoints.items()):
        kept = store.find(store.meta(f"endpoint:{name}"))
        if kept is None:
            is_connect = name == CONNECT
            kept = _thin(store, endpoint) if name == THIN else _snapshot(store, endpoint, is_connect=is_connect)
        if name == THIN:
            kept["webhook_endpoint"] = {"url": endpoint.url}
        else:
            kept["url"] = endpoint.url
        store.put(str(kept["object"]), kept)
        store.set_meta(f"endpoint:{name}", str(kept["id"]))


def _snapshot(store: Store, endpoint: Endpoint, *, is_connect: bool) -> Body:
    return {
        "id": store.new_id("we"),
        "object": "webhook_endpoint",
        "api_version": API_VERSION,
        "application": "ca_standin00000000" if is_connect else None,
        "created": store.now(),
        "description": None,
        "enabled_events": ["*"],
        "livemode": store.meta("is_live") == "1",
        "metadata": {},
        "status": "enabled",
        "url": endpoint.url,
    }


def _thin(store: Store, endpoint: Endpoint) -> Body:
    return {
        "id": store.new_id("ed"),
        "object": "v2.core.event_destination",
        "created": iso(store.now()),
        "description": "",
        "enabled_events": ["*"],
        "event_payload": "thin",
        "events_from": ["@self", "@accounts"],
        "livemode": store.meta("is_live") == "1",
        "metadata": {},
        "name": "Accounts",
        "status": "enabled",
        "type": "webhook_endpoint",
        "updated": iso(store.now()),
        "webhook_endpoint": {"url": endpoint.url},
    }


ENDPOINTS = (PLATFORM, CONNECT, THIN)


@route("GET", "/v1/webhook_endpoints", params.WebhookEndpointListParams)
def list_endpoints(call: Call) -> Body:
    """Answer with where snapshot events go."""
    return page(call, call.store.all("webhook_endpoint"))


@route("GET", "/v2/core/event_destinations", core.EventDestinationListParams)
def list_destinations(call: Call) -> Body:
    """Answer with where thin events go; the address only where `include` names it."""
    has_url = "webhook_endpoint.url" in [str(name) for name in call.items("include")]
    found = [
        body if has_url else body | {"webhook_endpoint": {}} for body in call.store.all("v2.core.event_destination")
    ]
    return {"data": found, "next_page_url": None, "previous_page_url": None}
