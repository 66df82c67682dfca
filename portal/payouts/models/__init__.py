"""Paying providers: their account at Stripe, payouts and each attempt to send one."""

from portal.payouts.models.accounts import AccountState, PayoutAccount
from portal.payouts.models.aftermath import BankLeg, PayoutReversal, ReversalState
from portal.payouts.models.destinations import (
    CURRENT_STATES,
    BankAccount,
    BankAccountState,
    BankScheme,
    ChangeKind,
    DestinationChange,
    ManualTransfer,
    Rail,
)
from portal.payouts.models.payouts import OPEN_STATES, Payout, PayoutApproval, PayoutAttempt, PayoutState
from portal.payouts.models.plans import PayoutPlan, Schedule
from portal.payouts.models.runs import PayoutRun, RunOrigin, RunSkip
from portal.payouts.models.tax import CreditNote, PayoutTax, TaxProfile, TaxStatus

__all__ = [
    "CURRENT_STATES",
    "OPEN_STATES",
    "AccountState",
    "BankAccount",
    "BankAccountState",
    "BankLeg",
    "BankScheme",
    "ChangeKind",
    "CreditNote",
    "DestinationChange",
    "ManualTransfer",
    "Payout",
    "PayoutAccount",
    "PayoutApproval",
    "PayoutAttempt",
    "PayoutPlan",
    "PayoutReversal",
    "PayoutRun",
    "PayoutState",
    "PayoutTax",
    "Rail",
    "ReversalState",
    "RunOrigin",
    "RunSkip",
    "Schedule",
    "TaxProfile",
    "TaxStatus",
]
