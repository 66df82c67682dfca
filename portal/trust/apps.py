from django.apps import AppConfig


class TrustConfig(AppConfig):
    name = "portal.trust"
    label = "trust"
