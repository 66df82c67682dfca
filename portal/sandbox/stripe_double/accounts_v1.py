"""Connected accounts by the older API: the same accounts, worded as v1, for platforms that were kept on it."""

from typing import cast

from stripe import params

from portal.sandbox.stripe_double import account_apis, accounts
from portal.sandbox.stripe_double.api import Call, route
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid, missing
from portal.sandbox.stripe_double.store import Store

_CAPABILITIES = {"active": "active", "pending": "pending"}
_REASONS = {
    "requirements_past_due": "requirements.past_due",
    "determining_status": "requirements.pending_verification",
    "restricted_other": "platform_paused",
    "unsupported_business": "rejected.other",
    "unsupported_country": "rejected.other",
}


@route("POST", "/v1/accounts", params.AccountCreateParams)
def create_account(call: Call) -> Body:
    """Open an account that waits for its owner's details."""
    account_apis.require(call, "v1")
    accounts.require_profile(call.store)
    if call.text("type"):
        raise invalid("Use `controller` instead of `type`.", param="type")
    country = call.text("country").upper()
    if not accounts.is_served(country):
        raise invalid(f"Country '{country}' is unknown or not served.", param="country", code="country_unsupported")
    account = accounts.open_account(
        call.store,
        {
            "contact_email": call.text("email"),
            "country": country,
            "dashboard": call.text("controller", "stripe_dashboard", "type", default="none"),
            "display_name": call.text("business_profile", "name"),
            "metadata": call.mapping("metadata"),
            "responsibilities": {"fees_collector": "application", "losses_collector": "application"},
            "wants_transfers": call.mapping("capabilities", "transfers").get("requested") is True,
        },
    )
    return worded(call.store, account)


@route("GET", "/v1/accounts/{account}", params.AccountRetrieveParams)
def read_account(call: Call) -> Body:
    """Answer with an account; a closed one is gone for this API."""
    account = call.store.find(call.names[0])
    if account is None or account.get("object") != "v2.core.account" or account["closed"]:
        raise Refusal(
            403,
            "account_invalid",
            f"The provided key does not have access to account '{call.names[0]}' (or that account does not exist).",
        )
    return worded(call.store, account)


@route("POST", "/v1/account_links", params.AccountLinkCreateParams)
def create_account_link(call: Call) -> Body:
    """Make a single-use link to the hosted onboarding page."""
    account = call.store.get("v2.core.account", call.text("account"), param="account")
    if account["closed"]:
        raise missing("account", str(account["id"]), "account")
    if not call.text("refresh_url").startswith(("http://", "https://")):
        raise invalid("Not a valid URL", param="refresh_url", code="url_invalid")
    urls: Body = {"refresh_url": call.text("refresh_url"), "return_url": call.text("return_url")}
    token, expires_at = accounts.make_link(call.store, account, urls)
    return {
        "object": "account_link",
        "created": call.store.now(),
        "expires_at": expires_at,
        "url": f"{call.base}/setup/{token}",
    }


def worded(store: Store, account: Body) -> Body:
    """Return an account in the words of v1."""
    capabilities = accounts.capabilities(account)
    transfers, bank = capabilities["stripe_transfers"], capabilities["payouts"]
    defaults = cast("Body", account["defaults"])
    is_in = bool(defaults.get("currency"))
    return {
        "id": account["id"],
        "object": "account",
        "business_profile": None,
        "business_type": "individual" if is_in else None,
        "capabilities": {"transfers": _CAPABILITIES.get(str(transfers["status"]), "inactive")},
        "charges_enabled": False,
        "controller": {
            "fees": {"payer": "application"},
            "is_controller": True,
            "losses": {"payments": "application"},
            "requirement_collection": "stripe",
            "stripe_dashboard": {"type": account["dashboard"]},
            "type": "application",
        },
        "country": str(cast("Body", account["identity"])["country"]).upper(),
        "default_currency": defaults.get("currency") or store.meta("currency", "usd"),
        "details_submitted": is_in,
        "email": account["contact_email"],
        "metadata": account["metadata"],
        "payouts_enabled": bank["status"] == "active",
        "requirements": _requirements(account, transfers),
        "type": "none",
    }


def _requirements(account: Body, transfers: Body) -> Body:
    wanted: dict[str, list[str]] = {"currently_due": [], "past_due": []}
    for entry in cast("list[Body]", cast("Body", account["requirements"])["entries"]):
        due = str(cast("Body", entry["minimum_deadline"])["status"])
        wanted.setdefault(due, []).append(str(entry["description"]))
    wanted["currently_due"] += wanted["past_due"]
    details = cast("list[Body]", transfers["status_details"])
    code = str(details[0]["code"]) if details else ""
    return {
        "alternatives": [],
        "current_deadline": None,
        "currently_due": wanted["currently_due"],
        "disabled_reason": _REASONS.get(code),
        "errors": [],
        "eventually_due": wanted["currently_due"],
        "past_due": wanted["past_due"],
        "pending_verification": ["identity.individual"] if transfers["status"] == "pending" else [],
    }
