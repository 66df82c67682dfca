"""The chart of accounts: what each kind is, whether it has a floor, and whether its row keeps running totals."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Every kind of ledger account."""

    STRIPE_BALANCE = "stripe_balance"
    CUSTOMER_CREDIT = "customer_credit"
    PROMO_CREDIT = "promo_credit"
    CUSTOMER_RECEIVABLE = "customer_receivable"
    PROVIDER_RECEIVABLE = "provider_receivable"
    PROVIDER_PENDING = "provider_pending"
    PROVIDER_AVAILABLE = "provider_available"
    PAYOUT_CLEARING = "payout_clearing"
    REFUND_CLEARING = "refund_clearing"
    PLATFORM_REVENUE = "platform_revenue"
    BREAKAGE = "breakage"
    STRIPE_FEES = "stripe_fees"
    DISPUTE_LOSS = "dispute_loss"
    BAD_DEBT = "bad_debt"
    PROMO_EXPENSE = "promo_expense"
    TAX_PAYABLE = "tax_payable"
    OWNER_EQUITY = "owner_equity"
    # Earnings of a provider whom nobody has identified yet: owed, but not on the way to a payout.
    PROVIDER_HELD = "provider_held"
    # The operator's own bank account: transfers of customers come in, payouts made by hand go out.
    BANK_BALANCE = "bank_balance"
    # Of an organization that pays afterwards: how far it may be in debt, and what of that it has not drawn yet. The
    # first less the second is what it owes; the second is spent through leases as if it were credit.
    POSTPAID_LIMIT = "postpaid_limit"
    POSTPAID_LINE = "postpaid_line"
    # The part of matured earnings that is kept back for a while, by the provider's trust tier.
    PROVIDER_RESERVE = "provider_reserve"
    # VAT that the pool paid to providers and reclaims from the tax office.
    INPUT_VAT = "input_vat"
    # What Stripe took beyond its fees, less what it gave: adjustments that an operator has looked at.
    STRIPE_ADJUSTMENTS = "stripe_adjustments"
    # What the pool pays providers for machines that stand ready, whether or not requests come.
    AVAILABILITY_EXPENSE = "availability_expense"
    # Money of an organization or a provider that a recovery sets aside until it is known what became of it.
    FROZEN = "frozen"


@dataclass(frozen=True, slots=True)
class KindRule:
    """An owned account has a floor of zero and running totals; a hot system account has neither."""

    is_debit_normal: bool
    is_owned: bool

    @property
    def has_floor(self) -> bool:
        """Whether the balance may never fall below what is held."""
        return self.is_owned

    @property
    def keeps_totals(self) -> bool:
        """Whether the account's row carries running totals, under its lock."""
        return self.is_owned


_ASSET_OWNED = KindRule(is_debit_normal=True, is_owned=True)
_LIABILITY_OWNED = KindRule(is_debit_normal=False, is_owned=True)
_DEBIT_SYSTEM = KindRule(is_debit_normal=True, is_owned=False)
_CREDIT_SYSTEM = KindRule(is_debit_normal=False, is_owned=False)

KINDS: dict[Kind, KindRule] = {
    Kind.STRIPE_BALANCE: _DEBIT_SYSTEM,
    Kind.CUSTOMER_CREDIT: _LIABILITY_OWNED,
    Kind.PROMO_CREDIT: _LIABILITY_OWNED,
    Kind.CUSTOMER_RECEIVABLE: _ASSET_OWNED,
    Kind.PROVIDER_RECEIVABLE: _ASSET_OWNED,
    Kind.PROVIDER_PENDING: _LIABILITY_OWNED,
    Kind.PROVIDER_AVAILABLE: _LIABILITY_OWNED,
    Kind.PAYOUT_CLEARING: _LIABILITY_OWNED,
    Kind.REFUND_CLEARING: _LIABILITY_OWNED,
    Kind.PLATFORM_REVENUE: _CREDIT_SYSTEM,
    Kind.BREAKAGE: _CREDIT_SYSTEM,
    Kind.STRIPE_FEES: _DEBIT_SYSTEM,
    Kind.DISPUTE_LOSS: _DEBIT_SYSTEM,
    Kind.BAD_DEBT: _DEBIT_SYSTEM,
    Kind.PROMO_EXPENSE: _DEBIT_SYSTEM,
    Kind.TAX_PAYABLE: _CREDIT_SYSTEM,
    Kind.OWNER_EQUITY: _CREDIT_SYSTEM,
    Kind.PROVIDER_HELD: _LIABILITY_OWNED,
    Kind.BANK_BALANCE: _DEBIT_SYSTEM,
    Kind.POSTPAID_LIMIT: _ASSET_OWNED,
    Kind.POSTPAID_LINE: _LIABILITY_OWNED,
    Kind.PROVIDER_RESERVE: _LIABILITY_OWNED,
    Kind.INPUT_VAT: _DEBIT_SYSTEM,
    Kind.STRIPE_ADJUSTMENTS: _DEBIT_SYSTEM,
    Kind.AVAILABILITY_EXPENSE: _DEBIT_SYSTEM,
    Kind.FROZEN: _LIABILITY_OWNED,
}

CUSTOMER_KINDS = (
    Kind.CUSTOMER_CREDIT,
    Kind.PROMO_CREDIT,
    Kind.CUSTOMER_RECEIVABLE,
    Kind.REFUND_CLEARING,
    Kind.POSTPAID_LIMIT,
    Kind.POSTPAID_LINE,
    Kind.FROZEN,
)
PROVIDER_KINDS = (
    Kind.PROVIDER_PENDING,
    Kind.PROVIDER_AVAILABLE,
    Kind.PAYOUT_CLEARING,
    Kind.PROVIDER_RECEIVABLE,
    Kind.PROVIDER_HELD,
    Kind.PROVIDER_RESERVE,
    Kind.FROZEN,
)


def code(kind: str, owner: str = "") -> str:
    """Return the account's code. Raises ValueError for an unknown kind or an owner where none (or one) belongs."""
    if KINDS[Kind(kind)].is_owned != bool(owner):
        raise ValueError(f"{kind} {'needs an owner' if not owner else 'has no owner'}")
    return f"{kind}:{owner}" if owner else str(kind)


def signed_balance(*, is_debit_normal: bool, debits: int, credits_: int) -> int:
    """Return the balance on the account's normal side."""
    return debits - credits_ if is_debit_normal else credits_ - debits
