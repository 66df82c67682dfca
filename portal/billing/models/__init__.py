"""Money: the ledger, prices, leased credit, budgets, top-ups and statements."""

from portal.billing.models.credit import BudgetLease, BudgetWindow, CreditLease, LeaseState
from portal.billing.models.ledger import LedgerAccount, LedgerTransfer, LedgerTx
from portal.billing.models.postings import ArchivedUsage, EarningMaturity, UnpostableUsage, UsagePosting
from portal.billing.models.prices import PriceVersion, ShareVersion
from portal.billing.models.rollups import EarningDay, SpendDay
from portal.billing.models.statements import ClosedPeriod, Statement, StatementKind
from portal.billing.models.topups import StripeCustomer, TopUp, TopUpState

__all__ = [
    "ArchivedUsage",
    "BudgetLease",
    "BudgetWindow",
    "ClosedPeriod",
    "CreditLease",
    "EarningDay",
    "EarningMaturity",
    "LeaseState",
    "LedgerAccount",
    "LedgerTransfer",
    "LedgerTx",
    "PriceVersion",
    "ShareVersion",
    "SpendDay",
    "Statement",
    "StatementKind",
    "StripeCustomer",
    "TopUp",
    "TopUpState",
    "UnpostableUsage",
    "UsagePosting",
]
