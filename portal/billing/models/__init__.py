"""Money: the ledger, prices, leased credit, budgets, top-ups and statements."""

from portal.billing.models.credit import BudgetLease, BudgetWindow, CreditLease, LeaseState
from portal.billing.models.ledger import LedgerAccount, LedgerTransfer, LedgerTx
from portal.billing.models.postings import EarningMaturity, UsagePosting
from portal.billing.models.prices import PriceVersion, ShareVersion
from portal.billing.models.statements import Statement
from portal.billing.models.topups import TopUp, TopUpState

__all__ = [
    "BudgetLease",
    "BudgetWindow",
    "CreditLease",
    "EarningMaturity",
    "LeaseState",
    "LedgerAccount",
    "LedgerTransfer",
    "LedgerTx",
    "PriceVersion",
    "ShareVersion",
    "Statement",
    "TopUp",
    "TopUpState",
    "UsagePosting",
]
