"""What a provider's account can do, computed from the account as Stripe has it now, with cause and fix in words."""

from portal.integrations.stripe_types import Account

PAYABLE = frozenset({"active", "action_required"})
UNLINKABLE = frozenset({"closed", "unsupported"})
CURRENCY_DIFFERS = "currency_differs"
_DUE = frozenset({"currently_due", "past_due"})

FIXES = {
    "not_started": "Start the onboarding at Stripe to be paid.",
    "onboarding": "Finish the onboarding at Stripe: some details are missing.",
    "in_review": "Stripe is checking your details; nothing is to be done, it usually takes a day or two.",
    "active": "",
    "action_required": "Stripe will need more details soon: open the form before the date below.",
    "restricted": "Stripe has stopped payments to this account: open the form, or ask Stripe's support.",
    "unsupported": "Stripe cannot pay this account: start again with another country or kind of business.",
    "closed": "The account was closed at Stripe: start again with a new one.",
}
# What Stripe's own codes mean, and what helps: (cause, fix).
_CODES = {
    "requirements_past_due": ("Details were not given in time.", "Open Stripe's form and give what is missing."),
    "requirements_pending_verification": (
        "Stripe is checking what was given.",
        "Nothing is to be done; it usually takes a day or two.",
    ),
    "determining_status": ("Stripe is checking the account.", "Nothing is to be done; look again in a day or two."),
    "restricted_other": ("Stripe has stopped the account and does not say why.", "Ask Stripe's support."),
    "unsupported_business": (
        "Stripe does not pay this kind of business.",
        "Unlink the account and start again with another one, or ask the pool's operator for a bank transfer.",
    ),
    "unsupported_country": (
        "Stripe cannot pay accounts of this country from this pool.",
        "Correct the country in the profile, unlink the account and start again.",
    ),
    "unsupported_entity_type": (
        "Stripe cannot pay this kind of company or person.",
        "Unlink the account and start again as another kind.",
    ),
    "account_missing": (
        "Stripe no longer knows the account, or it belongs to another mode.",
        "Unlink the account and start again.",
    ),
    "closed": ("The account was closed.", "Unlink the account and start again."),
    CURRENCY_DIFFERS: (
        "The bank of this account takes another currency than the account before it.",
        "Unlink it and use a bank account in the earlier currency, or ask the pool's operator to accept the new one.",
    ),
}


def is_payable(state: str) -> bool:
    """Tell whether transfers to an account in this state succeed."""
    return state in PAYABLE


def cause(state: str, code: str) -> str:
    """Return why the account is in this state, as far as Stripe says; empty where it is plain."""
    found = _CODES.get(code)
    return found[0] if found else (f"Stripe says: {code}." if code and state not in PAYABLE else "")


def fix(state: str, code: str) -> str:
    """Return what the provider can do about it."""
    found = _CODES.get(code)
    return found[1] if found else FIXES[state]


def currency_differs(*, before: str, after: str) -> bool:
    """Tell whether another account's bank takes another currency than the one before; unknown ones do not differ."""
    return bool(before and after) and before != after


def state_of(account: Account, *, was_active: bool) -> tuple[str, str]:
    """Return the portal's state of the account and Stripe's code for it."""
    asks = [entry for entry in account.requirements if entry.awaiting == "user"]
    if account.is_closed:
        return "closed", "closed"
    if account.transfers_status == "active":
        is_due = any(entry.deadline_status in _DUE for entry in asks)
        return ("action_required" if is_due else "active"), ""
    if account.transfers_status == "unsupported":
        return "unsupported", account.transfers_code
    if asks and not was_active:
        return "onboarding", ""
    if account.transfers_status == "pending":
        return "in_review", account.transfers_code
    return "restricted", account.transfers_code
