"""What the payouts room refuses, by name."""

from portal.core.errors import Conflict, Forbidden, InvalidValue, NotFound


class CountryNotPayable(InvalidValue):
    """The pool cannot pay providers of this country; said before anyone gives personal details."""

    code = "country_not_payable"


class HouseIsNotPaid(Conflict):
    """The operator's own nodes earn nothing to pay out."""

    code = "house_is_not_paid"


class AccountGone(Conflict):
    """The account at Stripe is closed or cannot be paid; unlink it and start again."""

    code = "payout_account_gone"


class PayoutOpenToAccount(Conflict):
    """A payout is on its way to this account: it ends first, then the account may be replaced."""

    code = "payout_open_to_account"


class CurrencyDiffers(Conflict):
    """The account's bank takes another currency than the account before it."""

    code = "payout_currency_differs"


class SecondFactorNeeded(Forbidden):
    """Where the money goes is only changed by a person who has just used a second factor."""

    code = "second_factor_needed"


class BankDetailsInvalid(InvalidValue):
    """The bank details cannot be right."""

    code = "bank_details_invalid"


class ManualRailClosed(Conflict):
    """This pool pays by Stripe only."""

    code = "manual_payouts_off"


class BankAccountMissing(NotFound):
    """The provider has given no bank details, or others by now."""

    code = "bank_account_missing"


class SecondOperatorNeeded(Forbidden):
    """Another operator than the one who sent it must confirm."""

    code = "second_operator_needed"


class DestinationHeld(Conflict):
    """Where the money goes was changed a short time ago: payouts rest until the change can no longer be a thief's."""

    code = "destination_changed_recently"


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


class RunChanged(Conflict):
    """The run is not the one that was seen: a payout was added, changed or taken out."""

    code = "payout_run_changed"


class RunNotClean(Conflict):
    """The run's last check is missing, too old, of another state of it, or found something."""

    code = "payout_run_not_clean"


class ReversalTooLarge(InvalidValue):
    """More cannot be taken back than was sent and not taken back before."""

    code = "reversal_too_large"


class ReversalOpen(Conflict):
    """Another reversal of this payout is under way."""

    code = "reversal_open"


class NotLeaving(Conflict):
    """The provider still has nodes in the pool that another decision keeps there."""

    code = "nodes_still_in_pool"
