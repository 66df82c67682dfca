"""The operator's console, composed of one list per subject."""

from django.urls import URLPattern

from portal.operators import (
    adjustments,
    agreements,
    availability,
    catalogue,
    checks,
    customers,
    engines,
    fleet,
    gpu_kinds,
    ledger,
    margin,
    model_files,
    model_memory,
    overview,
    payout_runs,
    payouts,
    placement,
    prices,
    providers,
    releases,
    shares,
    standing,
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
    *agreements.urlpatterns,
    *prices.urlpatterns,
    *shares.urlpatterns,
    *availability.urlpatterns,
    *margin.urlpatterns,
    *payouts.urlpatterns,
    *payout_runs.urlpatterns,
    *adjustments.urlpatterns,
    *standing.urlpatterns,
    *customers.urlpatterns,
    *ledger.urlpatterns,
]
