"""Operator pages: customers. The main page's route is named `operators:customers`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
