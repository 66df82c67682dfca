"""Operator pages: providers. The main page's route is named `operators:providers`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
