"""Team pages: members, roles and invitations. Main route `organization:team`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
