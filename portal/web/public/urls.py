"""Pages for everyone."""

from django.urls import URLPattern

from portal.web.public import home, theme

app_name = "public"
urlpatterns: list[URLPattern] = [
    *home.urlpatterns,
    *theme.urlpatterns,
]
