"""Settings of the demo and of a developer's machine; the supervisor hands in the URLs."""

from portal.settings import env, logs
from portal.settings.base import *  # noqa: F403  settings modules extend one another
from portal.settings.base import CELERY_BROKER_TRANSPORT_OPTIONS, INSTALLED_APPS, SECRET_KEY

IS_PRODUCTION = False
SECRET_KEY = SECRET_KEY or "local-only-not-a-secret-" + "0" * 40
INSTALLED_APPS = [*INSTALLED_APPS, "django_linear_migrations", "django_migration_linter", "portal.sandbox"]

# Files come straight from the source folders: no collectstatic on a developer's machine.
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = True

# A killed worker's tasks come back quickly, so that the demo can show it.
CELERY_BROKER_TRANSPORT_OPTIONS = {**CELERY_BROKER_TRANSPORT_OPTIONS, "visibility_timeout": 20}
CELERY_TASK_SOFT_TIME_LIMIT = 12
CELERY_TASK_TIME_LIMIT = 15

LOGGING = logs.settings(formatter="ReadableLines", level=env.text("LOG_LEVEL", "INFO"))
