"""Settings of the test suite; pytest's main process starts the servers and exports their URLs."""

from portal.settings import mail
from portal.settings.local import *  # noqa: F403  settings modules extend one another

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
EMAIL_URL = "memory:"
globals().update(mail.settings(EMAIL_URL))
CACHES = {
    name: {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": name}
    for name in ("default", "process")
}
ACCOUNT_RATE_LIMITS = False
METRICS_TOKEN = "the-suites-own"  # noqa: S105  it opens nothing but a test's page
# Tests say what they keep back and when they draft.
PAYOUT_RESERVE_DAYS = 0
PAYOUT_SCHEDULE = "manual"
