"""Provider pages: profile. The main page's route is named `provider:profile`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
