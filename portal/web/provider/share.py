"""Provider page: the share of each charge, since when and why, and pay for standing ready. Route `provider:share`."""

from datetime import timedelta

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.selectors import availability, prices, shares
from portal.core import clock
from portal.nodes.selectors import nodes
from portal.web.access import ProviderRequest, provider_page

_DAYS = 30


@provider_page()
def share(request: ProviderRequest) -> HttpResponse:
    """Show the provider's share now, every step of it, and its availability pay."""
    now = clock.now()
    today = now.replace(hour=0, minute=0, second=0, microsecond=0)
    first = today - timedelta(days=_DAYS - 1)
    held = prices.share_in_force(provider_id=request.provider.pk, at=now)
    steps = shares.history_of(provider_id=request.provider.pk)
    names = {row.public_id: row.name for row in nodes.nodes_of(provider=request.provider, with_retired=True)}
    paid = availability.paid_days(provider=request.provider.public_id, first=first, last=now)
    context = {
        "held": held,
        "tier": next((step.tier for step in reversed(steps) if step.effective_from <= now), ""),
        "steps": steps[::-1],
        "rates": sorted(availability.rates_at(at=now).items()),
        "paid": [(names.get(row.node, row.node), row) for row in paid],
        "paid_nano": sum(row.amount_nano for row in paid),
        "days": _DAYS,
        "now": now,
    }
    return render(request, "provider/share.html", context)


urlpatterns = [path("share/", share, name="share")]
