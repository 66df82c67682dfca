"""Row locks of this room, before any lock of billing: the account row, then the payout."""

from portal.core.errors import NotFound
from portal.payouts.errors import BankAccountMissing
from portal.payouts.models import BankAccount, Payout, PayoutAccount, PayoutReversal, PayoutRun


def payout_account(provider_id: int) -> PayoutAccount:
    """Lock a provider's account row. Raises NotFound."""
    row = (
        PayoutAccount.objects.select_for_update(of=("self",))
        .select_related("provider__organization")
        .filter(provider_id=provider_id)
        .first()
    )
    if row is None:
        raise NotFound("the provider has not started with Stripe", param="provider")
    return row


def payout(payout_id: int) -> Payout:
    """Lock a payout. Raises NotFound."""
    row = (
        Payout.objects.select_for_update(of=("self",))
        .select_related("provider__organization")
        .filter(pk=payout_id)
        .first()
    )
    if row is None:
        raise NotFound("there is no such payout", param="payout")
    return row


def bank_account(public_id: str) -> BankAccount:
    """Lock bank details. Raises BankAccountMissing."""
    row = (
        BankAccount.objects.select_for_update(of=("self",))
        .select_related("provider__organization")
        .filter(public_id=public_id)
        .first()
    )
    if row is None:
        raise BankAccountMissing("there are no such bank details", param="bank_account")
    return row


def run(run_id: int) -> PayoutRun:
    """Lock a payout run, before its payouts. Raises NotFound."""
    row = PayoutRun.objects.select_for_update().filter(pk=run_id).first()
    if row is None:
        raise NotFound("there is no such run", param="run")
    return row


def reversal(reversal_id: int) -> PayoutReversal:
    """Lock an operator's reversal, after its payout. Raises NotFound."""
    row = PayoutReversal.objects.select_for_update(of=("self",)).filter(pk=reversal_id).first()
    if row is None:
        raise NotFound("there is no such reversal", param="reversal")
    return row
