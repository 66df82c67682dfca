"""Provider overview. Route `provider:overview`."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.web.access import OrganizationRequest, page


@page(side="provider")
def overview(request: OrganizationRequest) -> HttpResponse:
    """Show where the organization stands as a provider."""
    return render(request, "provider/overview.html")


urlpatterns = [path("", overview, name="overview")]
