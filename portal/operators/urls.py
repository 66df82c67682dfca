"""The operator's console, composed of one list per subject."""

from django.urls import URLPattern

from portal.operators import (
    catalogue,
    checks,
    customers,
    fleet,
    gpu_kinds,
    ledger,
    model_memory,
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
    *model_memory.urlpatterns,
    *catalogue.urlpatterns,
    *gpu_kinds.urlpatterns,
    *placement.urlpatterns,
    *prices.urlpatterns,
    *payouts.urlpatterns,
    *customers.urlpatterns,
    *ledger.urlpatterns,
]
