"""Connected accounts (v2), what moves them, and the links into their hosted pages."""

from collections.abc import Callable
from typing import cast

from stripe import params
from stripe.params.v2 import core

from portal.sandbox.stripe_double import account_apis, banks
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
    account_apis.require(call, "v2")
    require_profile(call.store)
    wanted = call.mapping("configuration", "recipient", "capabilities", "stripe_balance", "stripe_transfers")
    account = open_account(
        call.store,
        {
            "contact_email": call.text("contact_email"),
            "country": call.text("identity", "country"),
            "dashboard": call.text("dashboard", default="none"),
            "display_name": call.text("display_name"),
            "metadata": call.mapping("metadata"),
            "responsibilities": call.mapping("defaults", "responsibilities"),
            "wants_transfers": bool(wanted),
        },
    )
    return _with(call, account)


def require_profile(store: Store) -> None:
    """Refuse accounts to a platform that has not told about itself. Raises Refusal."""
    if store.meta("platform_unregistered"):
        raise Refusal(
            400,
            "platform_registration_required",
            "You must complete your platform profile to use Connect before creating connected accounts.",
        )


def open_account(store: Store, wanted: Body) -> Body:
    """Keep a new account that waits for its owner's details; one country in many is not served at all."""
    country, has_recipient = str(wanted["country"]).upper(), bool(wanted["wants_transfers"])
    account: Body = {
        "id": store.new_id("acct"),
        "object": "v2.core.account",
        "applied_configurations": ["recipient"] if has_recipient else [],
        "closed": False,
        "configuration": {"recipient": {"applied": has_recipient, "capabilities": {"stripe_balance": {}}}},
        "contact_email": wanted["contact_email"],
        "created": iso(store.now()),
        "dashboard": wanted["dashboard"],
        "defaults": {
            "responsibilities": {**cast("Body", wanted["responsibilities"]), "requirements_collector": "stripe"}
        },
        "display_name": wanted["display_name"],
        "identity": {"country": country.lower()},
        "livemode": store.meta("is_live") == "1",
        "metadata": wanted["metadata"],
        "requirements": {"entries": []},
    }
    if is_served(country):
        ask(account, due="currently_due")
    else:
        set_capability(account, "unsupported", code="unsupported_country", resolution="no_resolution")
    store.put("v2.core.account", account)
    emit_thin(store, "v2.core.account.created", account)
    return account


@route("GET", "/v2/core/accounts/{id}", core.AccountRetrieveParams)
def read_account(call: Call) -> Body:
    """Answer with the account and only those parts that `include` names."""
    return _with(call, call.store.get("v2.core.account", call.names[0]))


@route("POST", "/v2/core/accounts/{id}/close", core.AccountCloseParams)
def close_account(call: Call) -> Body:
    """Close the account."""
    account = call.store.get("v2.core.account", call.names[0])
    return _with(call, change(call.store, account, close))


def is_served(country: str) -> bool:
    """Tell whether Stripe pays accounts of this country."""
    return country in _COUNTRIES.split()


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


def capabilities(account: Body) -> dict[str, Body]:
    """Return what the account may do, by name."""
    recipient = cast("dict[str, dict[str, dict[str, dict[str, Body]]]]", account["configuration"])["recipient"]
    return recipient["capabilities"]["stripe_balance"]


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


def refuse(account: Body) -> None:
    """Stripe does not serve this kind of business."""
    set_capability(account, "unsupported", code="unsupported_business", resolution="no_resolution")
    account["requirements"] = {"entries": []}


def lapse(account: Body) -> None:
    """A deadline has passed, and the account has stopped."""
    ask(account, due="past_due")


def remind(account: Body) -> None:
    """The account works, and something new is due."""
    set_capability(account, "active")
    account["requirements"] = {
        "entries": [_entry("identity.individual.documents", "currently_due")],
        "summary": {"minimum_deadline": {"status": "currently_due"}},
    }


def block_bank(account: Body) -> None:
    """The account may receive transfers, and its bank is not paid."""
    activate(account)
    capabilities(account)["payouts"] = {
        "status": "restricted",
        "status_details": [{"code": "requirements_past_due", "resolution": "provide_info"}],
    }


def close(account: Body) -> None:
    """The account is gone."""
    account["closed"] = True
    set_capability(account, "restricted", code="restricted_other", resolution="no_resolution")


MOVES: dict[str, Callable[[Body], None]] = {
    "complete": activate,
    "review": review,
    "restrict": restrict,
    "refuse": refuse,
    "remind": remind,
    "lapse": lapse,
    "block_bank": block_bank,
    "close": close,
}
_WITH_DETAILS = frozenset({activate, review, restrict, remind, block_bank})


def change(store: Store, account: Body, move: Callable[[Body], None], *, bank: str = "", due_in_s: int = 0) -> Body:
    """Apply a move, keep the account and tell about it; `bank` is the number that the owner gave."""
    move(account)
    if move in _WITH_DETAILS:
        _settle_in(store, account, bank)
    if due_in_s:
        deadline = {"status": "currently_due", "time": iso(store.now() + due_in_s)}
        cast("Body", account["requirements"])["summary"] = {"minimum_deadline": deadline}
    store.set_meta(f"bank_blocked:{account['id']}", "1" if move is block_bank else "")
    store.put("v2.core.account", account)
    if account["closed"]:
        emit_thin(store, "v2.core.account.closed", account)
    else:
        emit_thin(store, "v2.core.account[configuration.recipient].capability_status_updated", account)
        emit_thin(store, "v2.core.account[requirements].updated", account)
    return account


def _settle_in(store: Store, account: Body, bank: str) -> None:
    """Keep what a finished form told: the bank account and its currency."""
    defaults = cast("Body", account["defaults"])
    defaults.setdefault("currency", store.meta("currency", "usd"))
    if bank or banks.bank_of(store, account) is None:
        banks.name_bank(store, account, bank or str(account["id"]))


def change_bank(store: Store, account: Body, *, bank: str, currency: str = "") -> Body:
    """The owner names another bank account, which may take another currency."""
    if currency:
        cast("Body", account["defaults"])["currency"] = currency
        store.put("v2.core.account", account)
    banks.name_bank(store, account, bank)
    emit_thin(store, "v2.core.account[defaults].updated", account)
    return account


def tick(store: Store) -> None:
    """Let time pass: an account whose deadline is over stops."""
    now = iso(store.now())
    for account in reversed(store.all("v2.core.account")):
        summary = cast("Body", cast("Body", account["requirements"]).get("summary") or {})
        deadline = cast("Body", summary.get("minimum_deadline") or {})
        if deadline.get("status") == "currently_due" and str(deadline.get("time") or now) < now:
            change(store, account, lapse)


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
    token, expires_at = make_link(call.store, account, details)
    now = call.store.now()
    return {
        "object": "v2.core.account_link",
        "account": account["id"],
        "created": iso(now),
        "expires_at": iso(expires_at),
        "livemode": call.is_live,
        "url": f"{call.base}/setup/{token}",
        "use_case": use_case,
    }


def make_link(store: Store, account: Body, details: Body) -> tuple[str, int]:
    """Keep a single-use way to the form; return its token and when it ends."""
    expires_at = store.now() + LINK_LIFE_S
    link: Body = {
        "id": store.new_id("alink"),
        "object": "_link",
        "account": account["id"],
        "expires": expires_at,
        "used": False,
        **details,
    }
    store.put("_link", link)
    return str(link["id"]), expires_at


@route("POST", "/v1/accounts/{account}/login_links", params.AccountCreateLoginLinkParams)
def create_login_link(call: Call) -> Body:
    """Make a way into the owner's own dashboard. Raises Refusal where the form was never finished."""
    account = call.store.get("v2.core.account", call.names[0], param="account")
    if account["closed"]:
        raise missing("account", str(account["id"]), "account")
    if account["dashboard"] != "express" or banks.bank_of(call.store, account) is None:
        raise invalid("Cannot create a login link for an account that has not completed onboarding.", param="account")
    token = call.store.new_id("elink")
    call.store.put("_login", {"id": token, "object": "_login", "account": account["id"]})
    return {"object": "login_link", "created": call.store.now(), "url": f"{call.base}/express/{token}"}
