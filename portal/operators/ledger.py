"""Operator pages: ledger. The main page's route is named `operators:ledger`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
