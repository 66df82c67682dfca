"""Settings of a gateway process: the rooms' models and nothing of Django's web side.

The same module serves both places. `POOLHOUSE_MODE=local`, which the demo's supervisor and the tests set, leaves out
production's refusals; without it they hold.
"""

from portal.settings import env, logs, refusals
from portal.settings.base import *  # noqa: F403  settings modules extend one another
from portal.settings.base import SECRET_KEY

IS_PRODUCTION = env.choice("POOLHOUSE_MODE", "production", {"production", "local"}) == "production"

# payouts, webhooks and notifications stay out: a gateway neither pays nor writes to people.
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.postgres",
    "portal.audit",
    "portal.accounts",
    "portal.catalog",
    "portal.providers",
    "portal.nodes",
    "portal.metering",
    "portal.trust",
    "portal.billing",
]
MIDDLEWARE = []
TEMPLATES = []
AUTHENTICATION_BACKENDS = []
ROOT_URLCONF = ""

if IS_PRODUCTION:
    refusals.check(globals(), {name: env.text(name) for name in refusals.names()}, for_portal=False)
else:
    SECRET_KEY = SECRET_KEY or "local-only-not-a-secret-" + "0" * 40

LOGGING = logs.settings(
    formatter="JsonLines" if IS_PRODUCTION else "ReadableLines", level=env.text("LOG_LEVEL", "INFO")
)
