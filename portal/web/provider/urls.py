"""The provider's pages, composed of one list per subject."""

from django.urls import URLPattern

from portal.web.provider import (
    earnings,
    enrol,
    node_checks,
    nodes,
    overview,
    payout_plan,
    payouts,
    placement,
    private_nodes,
    profile,
    recount_files,
    requests,
    share,
    tax,
)

app_name = "provider"
urlpatterns: list[URLPattern] = [
    *overview.urlpatterns,
    *nodes.urlpatterns,
    *node_checks.urlpatterns,
    *placement.urlpatterns,
    *private_nodes.urlpatterns,
    *enrol.urlpatterns,
    *earnings.urlpatterns,
    *share.urlpatterns,
    *requests.urlpatterns,
    *recount_files.urlpatterns,
    *payouts.urlpatterns,
    *payout_plan.urlpatterns,
    *profile.urlpatterns,
    *tax.urlpatterns,
]
