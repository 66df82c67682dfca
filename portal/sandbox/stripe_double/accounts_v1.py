"""The older account API over the same accounts: made with `controller`, shown in the first API's shape."""

from typing import cast

from stripe import params

from portal.sandbox.stripe_double import account_apis, accounts, banks
from portal.sandbox.stripe_double.api import Call, route
from portal.sandbox.stripe_double.events import iso
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid, missing

_STATUSES = {"active": "active", "pending": "pending"}
_REASONS = {"requirements_past_due": "requirements.past_due", "restricted_other": "other"}


@route("POST", "/v1/accounts", params.AccountCreateParams)
def create_account(call: Call) -> Body:
    """Open an account that waits for its owner's details."""
    account_apis.require(call, "v1")
    if call.store.meta("platform_unregistered"):
        raise Refusal(400, "platform_registration_required", "You must complete your platform profile to use Connect.")
    if call.text("type"):
        raise invalid("Use `controller` instead of `type`.", param="type")
    country = call.text("country").upper()
    if not accounts.is_served(country):
        raise invalid(f"Country '{country}' is unknown or not served.", param="country", code="country_unsupported")
    dashboard = str(call.mapping("controller", "stripe_dashboard").get("type", "full"))
    account: Body = {
        "id": call.store.new_id("acct"),
        "object": "v2.core.account",
        "applied_configurations": ["recipient"],
        "closed": False,
        "configuration": {"recipient": {"applied": True, "capabilities": {"stripe_balance": {}}}},
        "contact_email": call.text("email"),
        "created": iso(call.store.now()),
        "dashboard": dashboard,
        "defaults": {"responsibilities": {"requirements_collector": "stripe"}},
        "display_name": str(call.mapping("business_profile").get("name", "")),
        "identity": {"country": country.lower()},
        "livemode": call.is_live,
        "metadata": call.mapping("metadata"),
        "requirements": {"entries": []},
    }
    accounts.ask(account, due="currently_due")
    call.store.put("v2.core.account", account)
    return shown(call, account)


@route("GET", "/v1/accounts/{account}", params.AccountRetrieveParams)
def read_account(call: Call) -> Body:
    """Answer with the account; a closed one is not there any more."""
    account = call.store.get("v2.core.account", call.names[0], param="account")
    if account["closed"]:
        raise missing("account", str(account["id"]), "account")
    return shown(call, account)


@route("POST", "/v1/account_links", params.AccountLinkCreateParams)
def create_account_link(call: Call) -> Body:
    """Make a single-use link to the hosted onboarding page."""
    account = call.store.get("v2.core.account", call.text("account"), param="account")
    if account["closed"]:
        raise missing("account", str(account["id"]), "account")
    if not call.text("refresh_url").startswith(("http://", "https://")):
        raise invalid("Not a valid URL", param="refresh_url", code="url_invalid")
    token, now = call.store.new_id("alink"), call.store.now()
    kept: Body = {
        "id": token,
        "object": "_link",
        "account": account["id"],
        "expires": now + accounts.LINK_LIFE_S,
        "used": False,
        "refresh_url": call.text("refresh_url"),
        "return_url": call.text("return_url"),
    }
    call.store.put("_link", kept)
    return {
        "object": "account_link",
        "created": now,
        "expires_at": now + accounts.LINK_LIFE_S,
        "url": f"{call.base}/setup/{token}",
    }


def shown(call: Call, account: Body) -> Body:
    """Return the account in the first API's shape."""
    configuration = cast("dict[str, dict[str, dict[str, dict[str, Body]]]]", account["configuration"])
    balance = configuration["recipient"]["capabilities"]["stripe_balance"]
    transfers = cast("Body", balance.get("stripe_transfers") or {})
    status = str(transfers.get("status", ""))
    entries = cast("list[Body]", cast("Body", account["requirements"]).get("entries") or [])
    defaults = cast("Body", account["defaults"])
    details = cast("list[Body]", transfers.get("status_details") or [])
    code = str(details[0]["code"]) if details else ""
    reason = "rejected.other" if status == "unsupported" else _REASONS.get(code, "")
    by_status = {name: [one["description"] for one in entries if _due(one) == name] for name in _DUE}
    return {
        "id": account["id"],
        "object": "account",
        "business_type": None,
        "capabilities": {"transfers": _STATUSES.get(status, "inactive")},
        "charges_enabled": False,
        "country": str(cast("Body", account["identity"])["country"]).upper(),
        "default_currency": defaults.get("currency") or call.store.meta("currency", "usd"),
        "details_submitted": status in _STATUSES,
        "email": account["contact_email"],
        "metadata": account["metadata"],
        "payouts_enabled": status == "active" and banks.bank_of(call.store, account) is not None,
        "requirements": {
            "alternatives": [],
            "current_deadline": None,
            "disabled_reason": None if status == "active" else reason or None,
            "errors": [],
            "pending_verification": [],
            **by_status,
        },
    }


_DUE = ("currently_due", "past_due", "eventually_due")


def _due(entry: Body) -> str:
    return str(cast("Body", entry["minimum_deadline"])["status"])
