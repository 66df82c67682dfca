"""Row locks of this room, before any lock of billing: the account row, then the payout."""

from portal.core.errors import NotFound
from portal.payouts.models import Payout, PayoutAccount


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
