"""Connected accounts (v2), their hosted onboarding links, and the platform's own account."""

from collections.abc import Callable
from typing import cast

from stripe import params
from stripe.params.v2 import core

from portal.sandbox.stripe_double.api import Call, route
from portal.sandbox.stripe_double.events import emit_thin, iso
from portal.sandbox.stripe_double.faults import Body, Refusal, invalid, missing
from portal.sandbox.stripe_double.store import Store

LINK_LIFE_S = 300
_COUNTRIES = (
    "AT AU BE BG CA CH CY CZ DE DK EE ES FI FR GB GR HR HU IE IS IT JP LI LT LU LV MT NL NO NZ PL PT RO SE SI SK US"
)
_OPTIONAL = {
    "configuration.recipient": "configuration",
    "requirements": "requirements",
    "defaults": "defaults",
    "identity": "identity",
}


@route("POST", "/v2/core/accounts", core.AccountCreateParams)
def create_account(call: Call) -> Body:
    """Open an account that waits for its owner's details."""
    if call.store.meta("platform_unregistered"):
        raise Refusal(
            400,
            "platform_registration_required",
            "You must complete your platform profile to use Connect before creating connected accounts.",
        )
    country = call.text("identity", "country").upper()
    wanted = call.mapping("configuration", "recipient", "capabilities", "stripe_balance", "stripe_transfers")
    account: Body = {
        "id": call.store.new_id("acct"),
        "object": "v2.core.account",
        "applied_configurations": ["recipient"] if wanted else [],
        "closed": False,
        "configuration": {"recipient": {"applied": bool(wanted), "capabilities": {"stripe_balance": {}}}},
        "contact_email": call.text("contact_email"),
        "created": iso(call.store.now()),
        "dashboard": call.text("dashboard", default="none"),
        "defaults": {
            "responsibilities": {**call.mapping("defaults", "responsibilities"), "requirements_collector": "stripe"}
        },
        "display_name": call.text("display_name"),
        "identity": {"country": country.lower()},
        "livemode": call.is_live,
        "metadata": call.mapping("metadata"),
        "requirements": {"entries": []},
    }
    if country in _COUNTRIES.split():
        ask(account, due="currently_due")
    else:
        set_capability(account, "unsupported", code="unsupported_country", resolution="no_resolution")
    call.store.put("v2.core.account", account)
    emit_thin(call.store, "v2.core.account.created", account)
    return _with(call, account)


@route("GET", "/v2/core/accounts/{id}", core.AccountRetrieveParams)
def read_account(call: Call) -> Body:
    """Answer with the account and only those parts that `include` names."""
    return _with(call, call.store.get("v2.core.account", call.names[0]))


@route("POST", "/v2/core/accounts/{id}/close", core.AccountCloseParams)
def close_account(call: Call) -> Body:
    """Close the account."""
    account = call.store.get("v2.core.account", call.names[0])
    return _with(call, change(call.store, account, close))


def _with(call: Call, account: Body) -> Body:
    included = {_OPTIONAL[str(name)] for name in call.items("include") if str(name) in _OPTIONAL}
    return {name: value for name, value in account.items() if name not in _OPTIONAL.values() or name in included}


def set_capability(account: Body, status: str, *, code: str = "", resolution: str = "") -> None:
    """Set what the account may receive, and why."""
    detail: Body = {
        "status": status,
        "status_details": [{"code": code, "resolution": resolution}] if code else [],
    }
    capabilities: Body = {"stripe_transfers": detail, "payouts": detail}
    account["configuration"] = {"recipient": {"applied": True, "capabilities": {"stripe_balance": capabilities}}}


def ask(account: Body, *, due: str) -> None:
    """Ask the owner for details; the capability waits for them."""
    set_capability(account, "restricted", code="requirements_past_due", resolution="provide_info")
    account["requirements"] = {
        "entries": [_entry("identity.individual", due), _entry("defaults.payout_methods", due)],
        "summary": {"minimum_deadline": {"status": due}},
    }


def _entry(description: str, due: str) -> Body:
    return {
        "awaiting_action_from": "user",
        "description": description,
        "errors": [],
        "impact": {
            "restricts_capabilities": [
                {
                    "capability": "stripe_balance.stripe_transfers",
                    "configuration": "recipient",
                    "deadline": {"status": due},
                }
            ]
        },
        "minimum_deadline": {"status": due},
        "requested_reasons": [{"code": "routine_onboarding"}],
    }


def activate(account: Body) -> None:
    """Everything is in: the account may receive transfers."""
    set_capability(account, "active")
    account["requirements"] = {"entries": []}


def review(account: Body) -> None:
    """Everything is in, and Stripe still looks at it."""
    set_capability(account, "pending", code="determining_status", resolution="contact_stripe")
    account["requirements"] = {"entries": []}


def restrict(account: Body) -> None:
    """Stripe has stopped the account."""
    set_capability(account, "restricted", code="restricted_other", resolution="contact_stripe")
    account["requirements"] = {"entries": []}


def remind(account: Body) -> None:
    """The account works, and something new is due."""
    set_capability(account, "active")
    account["requirements"] = {
        "entries": [_entry("identity.individual.documents", "currently_due")],
        "summary": {"minimum_deadline": {"status": "currently_due"}},
    }


def close(account: Body) -> None:
    """The account is gone."""
    account["closed"] = True
    set_capability(account, "restricted", code="restricted_other", resolution="no_resolution")


MOVES: dict[str, Callable[[Body], None]] = {
    "complete": activate,
    "review": review,
    "restrict": restrict,
    "remind": remind,
    "close": close,
}


def change(store: Store, account: Body, move: Callable[[Body], None]) -> Body:
    """Apply a move, keep the account and tell about it."""
    move(account)
    store.put("v2.core.account", account)
    if account["closed"]:
        emit_thin(store, "v2.core.account.closed", account)
    else:
        emit_thin(store, "v2.core.account[configuration.recipient].capability_status_updated", account)
        emit_thin(store, "v2.core.account[requirements].updated", account)
    return account


@route("POST", "/v2/core/account_links", core.AccountLinkCreateParams)
def create_account_link(call: Call) -> Body:
    """Make a single-use link to the hosted onboarding page."""
    account = call.store.get("v2.core.account", call.text("account"), param="account")
    if account["closed"]:
        raise missing("account", str(account["id"]), "account")
    use_case = call.mapping("use_case")
    details = cast("Body", use_case.get("account_onboarding") or use_case.get("account_update") or {})
    if not str(details.get("refresh_url", "")).startswith(("http://", "https://")):
        raise invalid("Not a valid URL", param="use_case.account_onboarding.refresh_url", code="url_invalid")
    token = call.store.new_id("alink")
    now = call.store.now()
    kept: Body = {
        "id": token,
        "object": "_link",
        "account": account["id"],
        "expires": now + LINK_LIFE_S,
        "used": False,
        **details,
    }
    call.store.put("_link", kept)
    return {
        "object": "v2.core.account_link",
        "account": account["id"],
        "created": iso(now),
        "expires_at": iso(now + LINK_LIFE_S),
        "livemode": call.is_live,
        "url": f"{call.base}/setup/{token}",
        "use_case": use_case,
    }


@route("GET", "/v1/account", params.AccountRetrieveCurrentParams)
def read_platform(call: Call) -> Body:
    """Answer with the platform's own account."""
    return {
        "id": "acct_platform00000000",
        "object": "account",
        "business_type": "company",
        "charges_enabled": True,
        "country": "US",
        "default_currency": call.store.meta("currency", "usd"),
        "details_submitted": True,
        "email": "platform@example.com",
        "metadata": {},
        "payouts_enabled": True,
        "type": "standard",
    }
