"""Posting templates of customers' money that came by more ways than Stripe, and of paying afterwards."""

from portal.billing.models import LedgerAccount
from portal.billing.rules.accounts import KINDS, Kind
from portal.billing.rules.incoming import Owed
from portal.billing.services.ledger import Transfer, account


def money_in(*, organization: str, into: Kind, net: int, tax: int, owed: Owed, currency: str) -> list[Transfer]:
    """Money came in: it pays debt, then what was drawn of the postpaid line; the rest is credit, tax is set aside.

    `into` is where the money lies now: a place of the pool's, or what was set aside for the organization.
    """
    parts = [
        (Kind.CUSTOMER_RECEIVABLE, organization, owed.debt_nano),
        (Kind.POSTPAID_LINE, organization, owed.drawn_nano),
        (Kind.CUSTOMER_CREDIT, organization, net - owed.debt_nano - owed.drawn_nano),
        (Kind.TAX_PAYABLE, "", tax),
    ]
    place = account(into, organization if KINDS[into].is_owned else "", currency=currency)
    return [Transfer(place, account(kind, owner, currency=currency), part) for kind, owner, part in parts if part]


def bank_credit_reversed(*, organization: str, amount: int, free: int, currency: str) -> list[Transfer]:
    """A bank transfer that was booked as credit was none: what is `free` of the credit goes, the rest is owed."""
    from_credit = max(0, min(amount, free))
    bank = account(Kind.BANK_BALANCE, currency=currency)
    parts = [(Kind.CUSTOMER_CREDIT, from_credit), (Kind.CUSTOMER_RECEIVABLE, amount - from_credit)]
    return [Transfer(account(kind, organization, currency=currency), bank, part) for kind, part in parts if part]


def postpaid_limit(*, organization: str, change: int, currency: str) -> list[Transfer]:
    """The limit rose by `change`, or fell where that is negative; what was drawn stays."""
    limit, line = _postpaid(organization, currency)
    return [Transfer(limit, line, change) if change > 0 else Transfer(line, limit, -change)]


def postpaid_written_off(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """What was drawn will not be paid: it is a loss, and the limit falls by it, so that nothing can be drawn again."""
    limit, _ = _postpaid(organization, currency)
    return [Transfer(account(Kind.BAD_DEBT, currency=currency), limit, amount)]


def _postpaid(organization: str, currency: str) -> tuple[LedgerAccount, LedgerAccount]:
    limit = account(Kind.POSTPAID_LIMIT, organization, currency=currency)
    return limit, account(Kind.POSTPAID_LINE, organization, currency=currency)
