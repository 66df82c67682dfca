"""Settings of the demo and of a developer's machine; the supervisor hands in the URLs."""

from portal.settings.base import *  # noqa: F403  settings modules extend one another
from portal.settings.base import INSTALLED_APPS, SECRET_KEY

SECRET_KEY = SECRET_KEY or "local-only-not-a-secret-" + "0" * 40
INSTALLED_APPS = [*INSTALLED_APPS, "django_linear_migrations", "portal.sandbox"]
