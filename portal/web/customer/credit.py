"""Customer pages: credit. The main page's route is named `customer:credit`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
