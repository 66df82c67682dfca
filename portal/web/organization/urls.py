"""Pages of an organization as such, whichever side it is on."""

from django.urls import URLPattern

from portal.web.organization import invitations, limits, settings, team

app_name = "organization"
urlpatterns: list[URLPattern] = [
    *invitations.urlpatterns,
    *settings.urlpatterns,
    *limits.urlpatterns,
    *team.urlpatterns,
]
