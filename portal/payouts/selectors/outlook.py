"""What the next run will do for a provider, as far as it is known here without asking Stripe."""

from dataclasses import dataclass

from django.conf import settings

from portal.billing.selectors import balances
from portal.payouts.models import OPEN_STATES, Payout, PayoutAccount
from portal.payouts.rules import accounts as account_rules
from portal.payouts.rules import reasons
from portal.payouts.rules.amounts import payable_minor
from portal.payouts.rules.reasons import Reason
from portal.providers.models import Provider, ProviderKind, ProviderState


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is available, what would be sent of it, and why not where nothing would."""

    provider: Provider
    available_nano: int
    amount_minor: int
    reason: Reason | None


def outlook(*, provider: Provider) -> Outlook:
    """Return the outlook of one provider."""
    balance = balances.provider_balance(provider=provider.public_id)
    amount = payable_minor(balance.available_nano - balance.debt_nano, settings.CURRENCY)
    return Outlook(provider, balance.available_nano, amount, _reason(provider, amount))


def outlooks(*, limit: int = 200) -> list[Outlook]:
    """Return the outlook of everyone who is owed money, those who cannot be paid first."""
    owed = balances.available_by_provider()
    rows = Provider.objects.select_related("organization").filter(public_id__in=owed).order_by("pk")[:limit]
    found = [outlook(provider=provider) for provider in rows]
    return sorted(found, key=lambda one: (one.reason is None, -one.amount_minor, one.provider.pk))


def _reason(provider: Provider, amount: int) -> Reason | None:
    if provider.kind == ProviderKind.HOUSE:
        return reasons.reason(reasons.HOUSE)
    if provider.state != ProviderState.APPROVED:
        return reasons.reason(reasons.NOT_APPROVED, provider.state)
    if Payout.objects.filter(provider=provider, state__in=OPEN_STATES).exists():
        return reasons.reason(reasons.OPEN_PAYOUT)
    if amount < settings.PAYOUT_MINIMUM_MINOR:
        return reasons.reason(reasons.BELOW_MINIMUM, f"{amount} of {settings.PAYOUT_MINIMUM_MINOR}")
    row = PayoutAccount.objects.filter(provider=provider, stripe_account__isnull=False).first()
    if row is None:
        return reasons.reason(reasons.NO_ACCOUNT)
    return None if account_rules.is_payable(row.state) else reasons.reason(reasons.ACCOUNT, row.state)
