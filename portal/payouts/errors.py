"""What the payouts room refuses, by name."""

from portal.core.errors import Conflict, Forbidden, InvalidValue


class CountryNotPayable(InvalidValue):
    """The pool cannot pay providers of this country; said before anyone gives personal details."""

    code = "country_not_payable"


class HouseIsNotPaid(Conflict):
    """The operator's own nodes earn nothing to pay out."""

    code = "house_is_not_paid"


class AccountGone(Conflict):
    """The account at Stripe is closed or cannot be paid; unlink it and start again."""

    code = "payout_account_gone"


class AccountInUse(Conflict):
    """The account works; only a closed or unsupported one is unlinked."""

    code = "payout_account_in_use"


class PayoutMoveRefused(Conflict):
    """The payout's state does not allow this move."""

    code = "payout_move_refused"


class PayoutNotSendable(Conflict):
    """Someone else has claimed the payout, or it is not approved."""

    code = "payout_not_sendable"


class PayoutFound(Conflict):
    """Stripe has the transfer after all: the payout was settled by it instead."""

    code = "payout_found_at_stripe"


class NotAnOperator(Forbidden):
    """Only an operator may approve a payout."""

    code = "not_an_operator"
