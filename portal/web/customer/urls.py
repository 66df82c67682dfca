"""The customer's pages, composed of one list per subject."""

from django.urls import URLPattern

from portal.web.customer import credit, keys, overview, usage

app_name = "customer"
urlpatterns: list[URLPattern] = [
    *overview.urlpatterns,
    *keys.urlpatterns,
    *usage.urlpatterns,
    *credit.urlpatterns,
]
