"""The sandbox as a Django app: found by the demo's commands, refused in production."""

from django.apps import AppConfig
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured


class SandboxConfig(AppConfig):
    """Loads only where the settings say that this is no production."""

    name = "portal.sandbox"
    label = "sandbox"

    def ready(self) -> None:
        """Refuse to be part of a production start, whichever settings module brought us in."""
        if getattr(settings, "IS_PRODUCTION", True):
            raise ImproperlyConfigured("INSTALLED_APPS holds portal.sandbox: the sandbox never runs in production")
