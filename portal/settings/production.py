"""Settings of a real pool. Refuses to start while anything that it needs is missing or unsound."""

from portal.settings import env, logs, refusals
from portal.settings.base import *  # noqa: F403  settings modules extend one another
from portal.settings.base import PUBLIC_URL

IS_PRODUCTION = True

refusals.check(globals(), {name: env.text(name) for name in refusals.names()}, for_portal=True)

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
IS_HTTPS = PUBLIC_URL.startswith("https://")
SECURE_SSL_REDIRECT = IS_HTTPS
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$", r"^metrics$"]
SECURE_HSTS_SECONDS = 31_536_000 if IS_HTTPS else 0
SESSION_COOKIE_SECURE = IS_HTTPS
CSRF_COOKIE_SECURE = IS_HTTPS
LOGGING = logs.settings(formatter="JsonLines", level=env.text("LOG_LEVEL", "INFO"))
