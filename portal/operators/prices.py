"""Operator pages: prices. The main page's route is named `operators:prices`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
