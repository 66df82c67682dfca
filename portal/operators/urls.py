"""The operator's console, composed of one list per subject."""

from django.urls import URLPattern

from portal.operators import (
    catalogue,
    checks,
    customers,
    engines,
    fleet,
    gpu_kinds,
    ledger,
    model_files,
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
    *engines.urlpatterns,
    *model_memory.urlpatterns,
    *model_files.urlpatterns,
    *catalogue.urlpatterns,
    *gpu_kinds.urlpatterns,
    *placement.urlpatterns,
    *prices.urlpatterns,
    *payouts.urlpatterns,
    *customers.urlpatterns,
    *ledger.urlpatterns,
]
