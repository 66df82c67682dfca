"""Pages of an organization as such, whichever side it is on."""

from django.urls import URLPattern

from portal.web.organization import settings, team

app_name = "organization"
urlpatterns: list[URLPattern] = [
    *settings.urlpatterns,
    *team.urlpatterns,
]
