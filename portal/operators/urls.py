"""The operator's console, composed of one list per subject."""

from django.urls import URLPattern

from portal.operators import (
    catalogue,
    checks,
    customers,
    fleet,
    ledger,
    overview,
    payouts,
    placement,
    prices,
    providers,
    releases,
)

app_name = "operators"
urlpatterns: list[URLPattern] = [
    *overview.urlpatterns,
    *providers.urlpatterns,
    *fleet.urlpatterns,
    *checks.urlpatterns,
    *releases.urlpatterns,
    *catalogue.urlpatterns,
    *placement.urlpatterns,
    *prices.urlpatterns,
    *payouts.urlpatterns,
    *customers.urlpatterns,
    *ledger.urlpatterns,
]
