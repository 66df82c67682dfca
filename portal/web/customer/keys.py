"""Customer pages: keys. The main page's route is named `customer:keys`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
