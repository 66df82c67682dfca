"""Providers' accounts at Stripe."""

from datetime import datetime

from django.db.models import F

from portal.payouts.models import PayoutAccount
from portal.providers.models import Provider


def account_of(*, provider: Provider) -> PayoutAccount | None:
    """Return the provider's account row, if it has started."""
    return PayoutAccount.objects.filter(provider=provider).first()


def provider_of_account(stripe_account: str) -> str:
    """Return the public id of the provider with this Stripe account, or an empty text."""
    found = PayoutAccount.objects.filter(stripe_account=stripe_account).values_list("provider__public_id", flat=True)
    return found.first() or "" if stripe_account else ""


def unsettled(*, fetched_before: datetime, limit: int = 100) -> list[str]:
    """Return providers whose account was not looked at since then, longest ago first."""
    rows = PayoutAccount.objects.filter(stripe_account__isnull=False).exclude(fetched_at__gte=fetched_before)
    ordered = rows.order_by(F("fetched_at").asc(nulls_first=True), "pk")
    return list(ordered.values_list("provider__public_id", flat=True)[:limit])
