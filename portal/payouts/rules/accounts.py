"""What a provider's account can do, computed from the account as Stripe has it now."""

from portal.integrations.stripe_types import Account

PAYABLE = frozenset({"active", "action_required"})
UNLINKABLE = frozenset({"closed", "unsupported"})
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


def is_payable(state: str) -> bool:
    """Tell whether transfers to an account in this state succeed."""
    return state in PAYABLE


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
