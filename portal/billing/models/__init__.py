"""Money: the ledger, prices, leased credit, budgets, top-ups and statements."""

from portal.billing.models.availability import AvailabilityHour, AvailabilityRate
from portal.billing.models.alerts import CreditAlert
from portal.billing.models.auto_topups import AutoTopUp, CustomerCard
from portal.billing.models.bank_transfers import BankTransfer, BankTransferState
from portal.billing.models.credit import BudgetLease, BudgetWindow, CreditLease, LeaseState
from portal.billing.models.grants import PromoGrant
from portal.billing.models.ledger import LedgerAccount, LedgerTransfer, LedgerTx
from portal.billing.models.postings import ArchivedUsage, EarningMaturity, UnpostableUsage, UsagePosting
from portal.billing.models.price_notices import PriceNotice
from portal.billing.models.postpaid import Postpaid, PostpaidBill, PostpaidState
from portal.billing.models.prices import PriceEnd, PriceVersion, ShareTier, ShareVersion, TierMembership
from portal.billing.models.rollups import EarningDay, SpendDay
from portal.billing.models.statements import ClosedPeriod, Statement, StatementKind
from portal.billing.models.topups import StripeCustomer, TopUp, TopUpOrigin, TopUpState

__all__ = [
    "ArchivedUsage",
    "AutoTopUp",
    "AvailabilityHour",
    "AvailabilityRate",
    "BankTransfer",
    "BankTransferState",
    "BudgetLease",
    "BudgetWindow",
    "ClosedPeriod",
    "CreditAlert",
    "CreditLease",
    "CustomerCard",
    "EarningDay",
    "EarningMaturity",
    "LeaseState",
    "LedgerAccount",
    "LedgerTransfer",
    "LedgerTx",
    "Postpaid",
    "PostpaidBill",
    "PostpaidState",
    "PriceEnd",
    "PriceNotice",
    "PriceVersion",
    "PromoGrant",
    "ShareTier",
    "ShareVersion",
    "SpendDay",
    "Statement",
    "StatementKind",
    "StripeCustomer",
    "TierMembership",
    "TopUp",
    "TopUpOrigin",
    "TopUpState",
    "UnpostableUsage",
    "UsagePosting",
]
