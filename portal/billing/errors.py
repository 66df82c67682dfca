"""What the billing room refuses, by name."""

from portal.core.errors import Conflict, DomainError, InvalidValue


class InsufficientCredit(Conflict):
    """The account cannot cover the amount beyond what is already held."""

    code = "insufficient_credit"


class BelowFloor(Conflict):
    """The transaction would take an account below zero or below what is held on it."""

    code = "below_floor"


class HoldTooSmall(Conflict):
    """More was to be released than is held."""

    code = "hold_too_small"


class KeyReused(Conflict):
    """The idempotency key already stands for another event."""

    code = "idempotency_key_reused"


class UnsoundTransfer(InvalidValue):
    """A transfer has no positive amount, one account on both sides, or two currencies."""

    code = "unsound_transfer"


class CurrencyMismatch(DomainError):
    """The account is kept in another currency than the one asked for."""

    code = "currency_mismatch"


class NotReversible(Conflict):
    """A reversal cannot be reversed; post the right transaction instead."""

    code = "not_reversible"


class PeriodNotOver(Conflict):
    """The month still runs, or usage may still arrive for it."""

    code = "period_not_over"


class PriceInThePast(InvalidValue):
    """A price or share may only change from now on."""

    code = "price_in_the_past"


class UnsoundPrice(InvalidValue):
    """The price is negative, out of range, or charges cached tokens more than fresh ones."""

    code = "unsound_price"


class PriceNotCancelable(Conflict):
    """The price holds already, or has been ended before."""

    code = "price_not_cancelable"


class UsageCannotBePosted(DomainError):
    """A usage record names a row that does not exist; it stays queued and is reported."""

    code = "usage_cannot_be_posted"


class AlreadyMatched(Conflict):
    """The line of Stripe's books is explained already."""

    code = "already_matched"
