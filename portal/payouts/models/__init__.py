"""Paying providers: their account at Stripe, payouts and each attempt to send one."""

from portal.payouts.models.accounts import AccountState, PayoutAccount
from portal.payouts.models.aftermath import BankLeg, PayoutReversal, ReversalState
from portal.payouts.models.payouts import OPEN_STATES, Payout, PayoutApproval, PayoutAttempt, PayoutState
from portal.payouts.models.plans import PayoutPlan, Schedule
from portal.payouts.models.runs import PayoutRun, RunOrigin, RunSkip
from portal.payouts.models.tax import CreditNote, PayoutTax, TaxProfile, TaxStatus

__all__ = [
    "OPEN_STATES",
    "AccountState",
    "BankLeg",
    "CreditNote",
    "Payout",
    "PayoutAccount",
    "PayoutApproval",
    "PayoutAttempt",
    "PayoutPlan",
    "PayoutReversal",
    "PayoutRun",
    "PayoutState",
    "PayoutTax",
    "ReversalState",
    "RunOrigin",
    "RunSkip",
    "Schedule",
    "TaxProfile",
    "TaxStatus",
]
