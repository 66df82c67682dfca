"""Pages for everyone."""

from django.urls import URLPattern

from portal.web.public import home, planner, theme

app_name = "public"
urlpatterns: list[URLPattern] = [
    *home.urlpatterns,
    *planner.urlpatterns,
    *theme.urlpatterns,
]
