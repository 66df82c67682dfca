"""The table from Stripe's account to the portal's state."""

import pytest

from portal.integrations.stripe_types import Account, Requirement
from portal.payouts.rules.accounts import FIXES, is_payable, state_of

USER_DUE = Requirement(description="identity.individual", awaiting="user", deadline_status="currently_due")
USER_LATER = Requirement(description="identity.individual", awaiting="user", deadline_status="eventually_due")
STRIPE_DUE = Requirement(description="identity.individual", awaiting="stripe", deadline_status="currently_due")


def account(status: str, code: str = "", *, is_closed: bool = False, asks: tuple[Requirement, ...] = ()) -> Account:
    """Return an account as Stripe might have it."""
    return Account(
        id="acct_1",
        is_closed=is_closed,
        is_live=False,
        country="DE",
        transfers_status=status,
        transfers_code=code,
        transfers_resolution="",
        bank_payouts_status=status,
        requirements=asks,
    )


@pytest.mark.parametrize(
    ("seen", "was_active", "expected"),
    [
        (account("active"), False, ("active", "")),
        (account("active", asks=(USER_LATER,)), True, ("active", "")),
        (account("active", asks=(STRIPE_DUE,)), True, ("active", "")),
        (account("active", asks=(USER_DUE,)), True, ("action_required", "")),
        (account("restricted", "requirements_past_due", asks=(USER_DUE,)), False, ("onboarding", "")),
        (
            account("restricted", "requirements_past_due", asks=(USER_DUE,)),
            True,
            ("restricted", "requirements_past_due"),
        ),
        (account("restricted", "restricted_other"), False, ("restricted", "restricted_other")),
        (account("pending", "determining_status"), False, ("in_review", "determining_status")),
        (account("pending", "determining_status", asks=(USER_DUE,)), False, ("onboarding", "")),
        (account("pending", "determining_status", asks=(USER_DUE,)), True, ("in_review", "determining_status")),
        (account("unsupported", "unsupported_country"), False, ("unsupported", "unsupported_country")),
        (account("active", is_closed=True), True, ("closed", "closed")),
        (account("", asks=(USER_DUE,)), False, ("onboarding", "")),
    ],
)
def test_state(seen, was_active, expected):
    assert state_of(seen, was_active=was_active) == expected


def test_only_accounts_that_take_transfers_are_payable():
    assert [state for state in FIXES if is_payable(state)] == ["active", "action_required"]


def test_every_state_but_active_says_what_to_do():
    assert [state for state, fix in FIXES.items() if not fix] == ["active"]
