"""Provider pages: payouts. The main page's route is named `provider:payouts`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
