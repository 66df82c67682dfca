"""The posting templates: which accounts each business event moves, and in which order."""

from portal.billing.models import LedgerAccount
from portal.billing.rules import accounts as chart
from portal.billing.rules.accounts import Kind
from portal.billing.rules.clawback import Split
from portal.billing.services.ledger import Transfer, account, accounts

_REVENUE = Kind.PLATFORM_REVENUE


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


def refund_reserved(*, organization: str, amount: int, currency: str, tax: int = 0, debt: int = 0) -> list[Transfer]:
    """A refund took `amount` aside: its tax from what is set aside for that, `debt` is no longer there and is owed."""
    aside = account(Kind.REFUND_CLEARING, organization, currency=currency)
    parts = [
        (Kind.CUSTOMER_CREDIT, organization, amount - tax - debt),
        (Kind.CUSTOMER_RECEIVABLE, organization, debt),
        (Kind.TAX_PAYABLE, "", tax),
    ]
    return [Transfer(account(kind, owner, currency=currency), aside, part) for kind, owner, part in parts if part]


def refund_sent(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """Stripe sent the refund."""
    return _one((Kind.REFUND_CLEARING, organization), (Kind.STRIPE_BALANCE, ""), amount, currency)


def refund_returned(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """A bank did not take the refund: the money is at Stripe again."""
    return _one((Kind.STRIPE_BALANCE, ""), (Kind.REFUND_CLEARING, organization), amount, currency)


def dispute_out(*, organization: str, amount: int, free: int, currency: str, tax: int = 0) -> list[Transfer]:
    """A dispute took money: its tax, then credit as far as that is `free` of holds, the rest becomes debt."""
    from_credit = max(0, min(amount - tax, free))
    bank = _system(Kind.STRIPE_BALANCE, currency)
    parts = [
        (Kind.CUSTOMER_CREDIT, organization, from_credit),
        (Kind.CUSTOMER_RECEIVABLE, organization, amount - tax - from_credit),
        (Kind.TAX_PAYABLE, "", tax),
    ]
    return [Transfer(account(kind, owner, currency=currency), bank, part) for kind, owner, part in parts if part]


def debt_collected(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """Credit that came free paid what the organization owes."""
    return _one((Kind.CUSTOMER_CREDIT, organization), (Kind.CUSTOMER_RECEIVABLE, organization), amount, currency)


def dispute_fee(*, amount: int, currency: str) -> list[Transfer]:
    """Stripe charged for a dispute, or gave a fee back where the amount is negative."""
    if amount < 0:
        return _one((Kind.STRIPE_BALANCE, ""), (Kind.DISPUTE_LOSS, ""), -amount, currency)
    return _one((Kind.DISPUTE_LOSS, ""), (Kind.STRIPE_BALANCE, ""), amount, currency)


def debt_written_off(*, organization: str, amount: int, currency: str) -> list[Transfer]:
    """A customer's debt will not be paid."""
    return _one((Kind.BAD_DEBT, ""), (Kind.CUSTOMER_RECEIVABLE, organization), amount, currency)


def availability(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """A provider's machine stood ready."""
    return _one((Kind.AVAILABILITY_EXPENSE, ""), (Kind.PROVIDER_PENDING, provider), amount, currency)


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


def maturity_with_reserve(*, provider: str, amount: int, reserve: int, currency: str) -> list[Transfer]:
    """An earning matured, and `reserve` of it is kept back; the whole is `amount`."""
    kept = _one((Kind.PROVIDER_PENDING, provider), (Kind.PROVIDER_RESERVE, provider), reserve, currency)
    free = maturity(provider=provider, amount=amount - reserve, currency=currency) if amount > reserve else []
    return [*free, *(kept if reserve else [])]


def reserve_released(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """What was kept back may be paid out from now on."""
    return _one((Kind.PROVIDER_RESERVE, provider), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def debt_netted(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """What a provider owes was taken from what it earned."""
    return _one((Kind.PROVIDER_AVAILABLE, provider), (Kind.PROVIDER_RECEIVABLE, provider), amount, currency)


def provider_clawback(*, provider: str, split: Split, customer: str, currency: str) -> list[Transfer]:
    """A provider gives back, in parts; it is the customer's credit, or the pool's revenue where none is named."""
    to = account(Kind.CUSTOMER_CREDIT, customer, currency=currency) if customer else _system(_REVENUE, currency)
    parts = [
        (Kind.PROVIDER_HELD, split.held_nano),
        (Kind.PROVIDER_PENDING, split.pending_nano),
        (Kind.PROVIDER_RESERVE, split.reserve_nano),
        (Kind.PROVIDER_AVAILABLE, split.available_nano),
        (Kind.PROVIDER_RECEIVABLE, split.debt_nano),
    ]
    return [Transfer(account(kind, provider, currency=currency), to, part) for kind, part in parts if part]


def provider_credit(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """The pool gives a provider money beyond its earnings."""
    return _one((_REVENUE, ""), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def payout_fee(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """A provider bears what Stripe takes for its payout."""
    return _one((Kind.PROVIDER_AVAILABLE, provider), (Kind.STRIPE_FEES, ""), amount, currency)


def payout_fee_returned(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """The payout was not made, and neither is its fee borne."""
    return _one((Kind.STRIPE_FEES, ""), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def dust_written_off(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """A provider has left, and less than the smallest unit that can be sent is left of its earnings."""
    return _one((Kind.PROVIDER_AVAILABLE, provider), (Kind.BREAKAGE, ""), amount, currency)


def owner_deposit(*, amount: int, currency: str) -> list[Transfer]:
    """The operator put money into Stripe."""
    return _one((Kind.STRIPE_BALANCE, ""), (Kind.OWNER_EQUITY, ""), amount, currency)


def stripe_fee_returned(*, amount: int, currency: str) -> list[Transfer]:
    """Stripe gave a fee back."""
    return _one((Kind.STRIPE_BALANCE, ""), (Kind.STRIPE_FEES, ""), amount, currency)


def stripe_adjustment(*, amount: int, is_loss: bool, currency: str) -> list[Transfer]:
    """Stripe corrected its books: it took `amount`, or gave it."""
    taken, bank = (Kind.STRIPE_ADJUSTMENTS, ""), (Kind.STRIPE_BALANCE, "")
    return _one(taken, bank, amount, currency) if is_loss else _one(bank, taken, amount, currency)


def payout_vat(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """A provider is owed VAT on top of what it is paid; the pool reclaims it."""
    return _one((Kind.INPUT_VAT, ""), (Kind.PROVIDER_AVAILABLE, provider), amount, currency)


def payout_vat_returned(*, provider: str, amount: int, currency: str) -> list[Transfer]:
    """A payout was not made or came back, and so is its VAT not owed."""
    return _one((Kind.PROVIDER_AVAILABLE, provider), (Kind.INPUT_VAT, ""), amount, currency)


def tax_paid(*, amount: int, currency: str) -> list[Transfer]:
    """The owner paid collected tax to the tax office."""
    return _one((Kind.TAX_PAYABLE, ""), (Kind.OWNER_EQUITY, ""), amount, currency)


def input_vat_settled(*, amount: int, currency: str) -> list[Transfer]:
    """The tax office set VAT that was paid to providers against what is owed, or paid it to the owner."""
    return _one((Kind.OWNER_EQUITY, ""), (Kind.INPUT_VAT, ""), amount, currency)


def _one(debit: tuple[Kind, str], credit: tuple[Kind, str], amount: int, currency: str) -> list[Transfer]:
    found = accounts([debit, credit], currency=currency)
    return [Transfer(found[chart.code(*debit)], found[chart.code(*credit)], amount)]


def _system(kind: Kind, currency: str) -> LedgerAccount:
    return account(kind, currency=currency)
