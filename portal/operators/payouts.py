"""Operator pages: payouts. The main page's route is named `operators:payouts`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
