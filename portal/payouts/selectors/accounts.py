"""Providers' accounts at Stripe."""

from datetime import datetime

from django.db.models import F

from portal.payouts.models import Payout, PayoutAccount
from portal.providers.models import Provider


def account_of(*, provider: Provider) -> PayoutAccount | None:
    """Return the provider's account row, if it has started."""
    return PayoutAccount.objects.filter(provider=provider).first()


def provider_of_account(stripe_account: str) -> str:
    """Return the public id of the provider whose Stripe account this is, or was when it was paid; else empty."""
    if not stripe_account:
        return ""
    linked = PayoutAccount.objects.filter(stripe_account=stripe_account)
    paid = Payout.objects.filter(destination=stripe_account).order_by("-pk")
    names = "provider__public_id"
    return linked.values_list(names, flat=True).first() or paid.values_list(names, flat=True).first() or ""


def unsettled(*, fetched_before: datetime, limit: int = 100) -> list[str]:
    """Return providers whose account was not looked at since then, longest ago first."""
    rows = PayoutAccount.objects.filter(stripe_account__isnull=False).exclude(fetched_at__gte=fetched_before)
    ordered = rows.order_by(F("fetched_at").asc(nulls_first=True), "pk")
    return list(ordered.values_list("provider__public_id", flat=True)[:limit])
