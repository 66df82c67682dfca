"""Whether a provider counts as identified: by Stripe, or by the operator who has checked its bank details."""

from datetime import datetime

from django.conf import settings

from portal.audit.services import SYSTEM_ACTOR
from portal.integrations import queue
from portal.payouts.models import BankAccount, BankAccountState, PayoutAccount
from portal.payouts.rules import accounts as rules
from portal.providers.models import Provider
from portal.providers.services import review


def settle(*, provider: Provider, now: datetime) -> bool:
    """Note inside the caller's transaction whether the provider is identified now; what was held then matures."""
    is_identified = _by_stripe(provider) or _by_operator(provider)
    review.set_identity(provider_id=provider.public_id, is_identified=is_identified, actor=SYSTEM_ACTOR, now=now)
    if is_identified:
        queue.after_commit("billing.release_held", provider=provider.public_id)
    return is_identified


def _by_stripe(provider: Provider) -> bool:
    rows = PayoutAccount.objects.filter(provider=provider, stripe_account__isnull=False)
    return rows.filter(state__in=sorted(rules.PAYABLE)).exists()


def _by_operator(provider: Provider) -> bool:
    return settings.MANUAL_PAYOUTS and (
        BankAccount.objects.filter(provider=provider, state=BankAccountState.VERIFIED).exists()
    )
