from django.apps import AppConfig


class ProvidersConfig(AppConfig):
    name = "portal.providers"
    label = "providers"
