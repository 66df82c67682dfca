"""Customer overview. Route `customer:overview`."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.web.access import OrganizationRequest, page


@page(side="customer")
def overview(request: OrganizationRequest) -> HttpResponse:
    """Show where the organization stands as a customer."""
    return render(request, "customer/overview.html")


urlpatterns = [path("", overview, name="overview")]
