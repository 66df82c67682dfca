"""Provider pages: enrol. The main page's route is named `provider:enrol`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
