"""Provider pages: nodes. The main page's route is named `provider:nodes`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
