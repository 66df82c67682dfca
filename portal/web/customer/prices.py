"""Customer page: what the organization pays for each model, now and later. Route `customer:prices`."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.selectors import offers
from portal.core import clock
from portal.web.access import OrganizationRequest, page


@page(side="customer")
def prices(request: OrganizationRequest) -> HttpResponse:
    """Show the price of each model for this organization, what comes, and what was agreed with it."""
    rows = offers.offers(now=clock.now(), organization_id=request.organization.pk)
    return render(request, "customer/prices.html", {"rows": rows, "has_own": any(row.own for row in rows)})


urlpatterns = [path("prices/", prices, name="prices")]
