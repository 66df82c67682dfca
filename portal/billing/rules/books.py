"""The sum that the pool publishes of each day: charged = providers' earnings + the pool's fee + refunds + write-offs.

Every account belongs to one of four groups; value moves from the debited account to the credited one.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from portal.billing.rules.accounts import Kind
from portal.core.money import decimal_text


class Group(StrEnum):
    """Whose an account is. `money` is what lies at Stripe, at the bank, with the owner and the tax office."""

    CUSTOMERS = "customers"
    PROVIDERS = "providers"
    POOL = "pool"
    MONEY = "money"


GROUPS: dict[Kind, Group] = {
    Kind.STRIPE_BALANCE: Group.MONEY,
    Kind.CUSTOMER_CREDIT: Group.CUSTOMERS,
    Kind.PROMO_CREDIT: Group.CUSTOMERS,
    Kind.CUSTOMER_RECEIVABLE: Group.CUSTOMERS,
    Kind.PROVIDER_RECEIVABLE: Group.PROVIDERS,
    Kind.PROVIDER_PENDING: Group.PROVIDERS,
    Kind.PROVIDER_AVAILABLE: Group.PROVIDERS,
    Kind.PAYOUT_CLEARING: Group.PROVIDERS,
    Kind.REFUND_CLEARING: Group.CUSTOMERS,
    Kind.PLATFORM_REVENUE: Group.POOL,
    Kind.BREAKAGE: Group.POOL,
    Kind.STRIPE_FEES: Group.POOL,
    Kind.DISPUTE_LOSS: Group.POOL,
    Kind.BAD_DEBT: Group.POOL,
    Kind.PROMO_EXPENSE: Group.POOL,
    Kind.TAX_PAYABLE: Group.MONEY,
    Kind.OWNER_EQUITY: Group.MONEY,
    Kind.PROVIDER_HELD: Group.PROVIDERS,
    Kind.BANK_BALANCE: Group.MONEY,
    Kind.POSTPAID_LIMIT: Group.CUSTOMERS,
    Kind.POSTPAID_LINE: Group.CUSTOMERS,
    Kind.PROVIDER_RESERVE: Group.PROVIDERS,
    Kind.INPUT_VAT: Group.MONEY,
    Kind.STRIPE_ADJUSTMENTS: Group.POOL,
    Kind.AVAILABILITY_EXPENSE: Group.POOL,
    Kind.FROZEN: Group.MONEY,
    Kind.FROZEN: Group.MONEY,
}

_WRITTEN_OFF = frozenset({Kind.BAD_DEBT, Kind.PROMO_EXPENSE})


@dataclass(frozen=True, slots=True)
class Flow:
    """The sum of a day's transfers from one kind of account to another, in nano units."""

    debit: Kind
    credit: Kind
    nano: int


@dataclass(frozen=True, slots=True)
class Day:
    """One UTC day by the time of booking. `charged` is summed from the requests, all else from the ledger."""

    requests: int
    charged_nano: int
    earned_nano: int
    fee_nano: int
    refunded_nano: int
    written_off_nano: int

    @property
    def difference_nano(self) -> int:
        """Charged less the four parts; 0 in every sound ledger."""
        return self.charged_nano - (self.earned_nano + self.fee_nano + self.refunded_nano + self.written_off_nano)


def day_of(*, requests: int, charged_nano: int, flows: Iterable[Flow]) -> Day:
    """Sum a day. Each transfer between customers, providers and the pool counts in exactly two of the parts, or one.

    Between a customer and the others: a charge, unless it takes a write-off back (forfeited credit); the way back is
    a write-off where the pool forgives debt or gives credit away, else a refund.
    """
    parts = {"earned": 0, "fee": 0, "refunded": 0, "written_off": 0}
    for flow in flows:
        gives, takes = GROUPS[flow.debit], GROUPS[flow.credit]
        if gives == takes or Group.MONEY in {gives, takes}:
            continue
        for group, sign in ((takes, 1), (gives, -1)):
            name = _part(group, flow)
            if name:
                parts[name] += sign * flow.nano
    return Day(
        requests=requests,
        charged_nano=charged_nano,
        earned_nano=parts["earned"],
        fee_nano=parts["fee"],
        refunded_nano=parts["refunded"],
        written_off_nano=parts["written_off"],
    )


def _part(group: Group, flow: Flow) -> str:
    """Return which part a flow into (or out of) the group counts in; a plain charge counts on the other side alone."""
    if group == Group.PROVIDERS:
        return "earned"
    if group == Group.POOL:
        return "fee"
    if GROUPS[flow.credit] == Group.CUSTOMERS:
        return "written_off" if flow.debit in _WRITTEN_OFF else "refunded"
    return "written_off" if flow.credit == Kind.BREAKAGE else ""


def to_json(day: Day, *, date: str, currency: str) -> dict[str, object]:
    """Return what is published and hashed: amounts as exact decimal strings of the currency's unit."""
    return {
        "day": date,
        "currency": currency,
        "requests": day.requests,
        "charged": decimal_text(day.charged_nano),
        "provider_earnings": decimal_text(day.earned_nano),
        "platform_fee": decimal_text(day.fee_nano),
        "refunds": decimal_text(day.refunded_nano),
        "write_offs": decimal_text(day.written_off_nano),
        "difference": decimal_text(day.difference_nano),
    }
