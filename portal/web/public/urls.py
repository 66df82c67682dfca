"""Pages for everyone."""

from django.urls import URLPattern

from portal.web.public import books, home, offers, planner, theme

app_name = "public"
urlpatterns: list[URLPattern] = [
    *home.urlpatterns,
    *offers.urlpatterns,
    *planner.urlpatterns,
    *theme.urlpatterns,
    *books.urlpatterns,
]
