"""The posting templates: which accounts each business event moves, and in which order."""

from portal.billing.models import LedgerAccount
from portal.billing.rules.accounts import Kind
from portal.billing.services.ledger import Transfer, account


def topup_paid(*, organization: str, net: int, tax: int, debt: int, currency: str) -> list[Transfer]:
    """Money came in: open debt (`debt` ≤ `net`) is paid first, the rest is credit, tax is set aside."""
    bank = _system(Kind.STRIPE_BALANCE, currency)
    parts = [
        (Kind.CUSTOMER_RECEIVABLE, organization, debt),
        (Kind.CUSTOMER_CREDIT, organization, net - debt),
        (Kind.TAX_PAYABLE, "", tax),
    ]
    return [Transfer(bank, account(kind, owner, currency=currency), part) for kind, owner, part in parts if part]


def stripe_fee(*, amount: int, currency: str) -> list[Transfer]:
    """Stripe kept a fee."""
    return _one((Kind.STRIPE_FEES, ""), (Kind.STRIPE_BALANCE, ""), amount, currency)


def usage(
    *, payers: list[tuple[LedgerAccount, int]], provider_nano: int, pending: LedgerAccount, revenue: LedgerAccount
) -> list[Transfer]:
    """Usage was delivered: the payers' amounts, in order, fill the provider's part first, then the platform's."""
    left = provider_nano
    transfers: list[Transfer] = []
    for payer, amount in payers:
        to_provider = min(left, amount)
        left -= to_provider
        if to_provider:
            transfers.append(Transfer(payer, pending, to_provider))
        if amount - to_provider:
            transfers.append(Transfer(payer, revenue, amount - to_provider))
    return transfers


def promo_grant(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """The pool gives credit away."""
    return _one((Kind.PROMO_EXPENSE, ""), (Kind.PROMO_CREDIT, organization), amount, currency)


def promo_expiry(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """Credit that was given away ran out of time."""
    return _one((Kind.PROMO_CREDIT, organization), (Kind.BREAKAGE, ""), amount, currency)


def maturity(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """An earning may be paid out from now on."""
    return _one((Kind.PROVIDER_PENDING, provider), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def payout_reserved(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """A payout took its money aside."""
    return _one((Kind.PROVIDER_AVAILABLE, provider), (Kind.PAYOUT_CLEARING, provider), amount, currency)


def payout_sent(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """Stripe made the transfer."""
    return _one((Kind.PAYOUT_CLEARING, provider), (Kind.STRIPE_BALANCE, ""), amount, currency)


def payout_rejected(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """The payout will not be sent: its money is available again."""
    return _one((Kind.PAYOUT_CLEARING, provider), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def transfer_reversed(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """Stripe took (a further part of) a transfer back."""
    return _one((Kind.STRIPE_BALANCE, ""), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def refund_reserved(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """A refund took its money aside."""
    return _one((Kind.CUSTOMER_CREDIT, organization), (Kind.REFUND_CLEARING, organization), amount, currency)


def refund_sent(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """Stripe sent the refund."""
    return _one((Kind.REFUND_CLEARING, organization), (Kind.STRIPE_BALANCE, ""), amount, currency)


def refund_failed(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """Stripe could not send the refund: its money is credit again."""
    return _one((Kind.REFUND_CLEARING, organization), (Kind.CUSTOMER_CREDIT, organization), amount, currency)


def dispute_out(*, organization: str, amount: int, free: int, currency: str) -> list[Transfer]:
    """A dispute took money: from credit as far as it is `free` of holds, the rest becomes debt."""
    from_credit = max(0, min(amount, free))
    bank = _system(Kind.STRIPE_BALANCE, currency)
    parts = [(Kind.CUSTOMER_CREDIT, from_credit), (Kind.CUSTOMER_RECEIVABLE, amount - from_credit)]
    return [Transfer(account(kind, organization, currency=currency), bank, part) for kind, part in parts if part]


def dispute_back(*, organization: str, amount: int, debt: int, currency: str) -> list[Transfer]:
    """A dispute was won: open debt is settled first, the rest is credit again."""
    return topup_paid(organization=organization, net=amount, tax=0, debt=min(amount, debt), currency=currency)


def dispute_fee(*, amount: int, currency: str) -> list[Transfer]:
    """Stripe charged for a dispute."""
    return _one((Kind.DISPUTE_LOSS, ""), (Kind.STRIPE_BALANCE, ""), amount, currency)


def debt_written_off(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """A customer's debt will not be paid."""
    return _one((Kind.BAD_DEBT, ""), (Kind.CUSTOMER_RECEIVABLE, organization), amount, currency)


def owner_withdrawal(*, amount: int, currency: str) -> list[Transfer]:
    """The operator took money out of Stripe."""
    return _one((Kind.OWNER_EQUITY, ""), (Kind.STRIPE_BALANCE, ""), amount, currency)


def held_released(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """The provider is identified: what was held back matures like any earning."""
    return _one((Kind.PROVIDER_HELD, provider), (Kind.PROVIDER_PENDING, provider), amount, currency)


def held_expired(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """Nobody ever said who they are: what was held back too long is forfeited."""
    return _one((Kind.PROVIDER_HELD, provider), (Kind.BREAKAGE, ""), amount, currency)


def payout_paid_by_bank(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """The operator's bank has paid a payout."""
    return _one((Kind.PAYOUT_CLEARING, provider), (Kind.BANK_BALANCE, ""), amount, currency)


def bank_payout_returned(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """The provider's bank sent a payout back: its money is available again."""
    return _one((Kind.BANK_BALANCE, ""), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def _one(debit: tuple[Kind, str], credit: tuple[Kind, str], amount: int, currency: str) -> list[Transfer]:
    return [Transfer(account(*debit, currency=currency), account(*credit, currency=currency), amount)]


def _system(kind: Kind, currency: str) -> LedgerAccount:
    return account(kind, currency=currency)
