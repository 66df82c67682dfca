"""Customer pages: usage. The main page's route is named `customer:usage`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
