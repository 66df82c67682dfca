from django.apps import AppConfig


class SandboxConfig(AppConfig):
    name = "portal.sandbox"
    label = "sandbox"
