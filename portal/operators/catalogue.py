"""Operator pages: catalogue models. The main page's route is named `operators:models`.

Not called models.py, since Django would read a module of that name as this app's tables.
"""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
