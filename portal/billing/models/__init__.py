"""Money: the ledger, prices, leased credit, budgets, top-ups and statements."""

from portal.billing.models.adjustments import (
    AdjustmentKind,
    AdjustmentReason,
    AdjustmentState,
    ProviderAdjustment,
)
from portal.billing.models.alerts import CreditAlert
from portal.billing.models.auto_topups import AutoTopUp, CustomerCard
from portal.billing.models.availability import AvailabilityHour, AvailabilityRate
from portal.billing.models.bank_transfers import BankTransfer, BankTransferState
from portal.billing.models.charges import ForeignCharge, PaidCharge
from portal.billing.models.checks import LedgerCheck, LedgerDifference
from portal.billing.models.closing import BooksDay, PeriodBalance
from portal.billing.models.credit import BudgetLease, BudgetWindow, CreditLease, LeaseState
from portal.billing.models.disputes import Dispute, DisputeMovement, FraudWarning, WarningState
from portal.billing.models.grants import PromoGrant
from portal.billing.models.held_earnings import HeldEarning
from portal.billing.models.ledger import LedgerAccount, LedgerTransfer, LedgerTx
from portal.billing.models.postings import ArchivedUsage, EarningMaturity, UnpostableUsage, UsagePosting
from portal.billing.models.postpaid import Postpaid, PostpaidBill, PostpaidState
from portal.billing.models.price_notices import PriceNotice
from portal.billing.models.prices import PriceEnd, PriceVersion, ShareTier, ShareVersion, TierMembership
from portal.billing.models.recovery import FoundKind, FoundObject, FoundState, Recovery
from portal.billing.models.refunds import Refund, RefundAttempt, RefundOrigin, RefundState
from portal.billing.models.related import PartyFact, RelatedPair, Ruling
from portal.billing.models.reserves import ReservedEarning, TierPin
from portal.billing.models.risk import CustomerRisk, SpendingStop, StopKind, TopUpAttempt
from portal.billing.models.rollups import EarningDay, SpendDay
from portal.billing.models.statements import ClosedPeriod, Statement, StatementKind
from portal.billing.models.stripe_books import StripeMovement
from portal.billing.models.topups import StripeCustomer, TopUp, TopUpOrigin, TopUpState

__all__ = [
    "AdjustmentKind",
    "AdjustmentReason",
    "AdjustmentState",
    "ArchivedUsage",
    "AutoTopUp",
    "AvailabilityHour",
    "AvailabilityRate",
    "BankTransfer",
    "BankTransferState",
    "BooksDay",
    "BudgetLease",
    "BudgetWindow",
    "ClosedPeriod",
    "CreditAlert",
    "CreditLease",
    "CustomerCard",
    "CustomerRisk",
    "Dispute",
    "DisputeMovement",
    "EarningDay",
    "EarningMaturity",
    "ForeignCharge",
    "FoundKind",
    "FoundObject",
    "FoundState",
    "FraudWarning",
    "HeldEarning",
    "LeaseState",
    "LedgerAccount",
    "LedgerCheck",
    "LedgerDifference",
    "LedgerTransfer",
    "LedgerTx",
    "PaidCharge",
    "PartyFact",
    "PeriodBalance",
    "Postpaid",
    "PostpaidBill",
    "PostpaidState",
    "PriceEnd",
    "PriceNotice",
    "PriceVersion",
    "PromoGrant",
    "ProviderAdjustment",
    "Recovery",
    "Refund",
    "RefundAttempt",
    "RefundOrigin",
    "RefundState",
    "RelatedPair",
    "ReservedEarning",
    "Ruling",
    "ShareTier",
    "ShareVersion",
    "SpendDay",
    "SpendingStop",
    "Statement",
    "StatementKind",
    "StopKind",
    "StripeCustomer",
    "StripeMovement",
    "TierMembership",
    "TierPin",
    "TopUp",
    "TopUpAttempt",
    "TopUpOrigin",
    "TopUpState",
    "UnpostableUsage",
    "UsagePosting",
    "WarningState",
]
