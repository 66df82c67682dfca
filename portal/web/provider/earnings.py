"""Provider pages: earnings. The main page's route is named `provider:earnings`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
