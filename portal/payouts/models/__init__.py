"""Paying providers: their account at Stripe, payouts and each attempt to send one."""

from portal.payouts.models.accounts import AccountState, PayoutAccount
from portal.payouts.models.payouts import OPEN_STATES, Payout, PayoutApproval, PayoutAttempt, PayoutState

__all__ = [
    "OPEN_STATES",
    "AccountState",
    "Payout",
    "PayoutAccount",
    "PayoutApproval",
    "PayoutAttempt",
    "PayoutState",
]
