"""The customer's pages, composed of one list per subject."""

from django.urls import URLPattern

from portal.web.customer import (
    auto_topup,
    bills,
    credit,
    key_rotation,
    keys,
    overview,
    prices,
    private_nodes,
    projects,
    recount_files,
    refunds,
    requests,
    usage,
)

app_name = "customer"
urlpatterns: list[URLPattern] = [
    *overview.urlpatterns,
    *keys.urlpatterns,
    *key_rotation.urlpatterns,
    *projects.urlpatterns,
    *private_nodes.urlpatterns,
    *prices.urlpatterns,
    *usage.urlpatterns,
    *requests.urlpatterns,
    *recount_files.urlpatterns,
    *auto_topup.urlpatterns,
    *bills.urlpatterns,
    *credit.urlpatterns,
    *refunds.urlpatterns,
]
