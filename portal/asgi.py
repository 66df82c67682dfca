"""The portal's ASGI application. Forwarded addresses and schemes count only from TRUSTED_PROXIES."""

import os
from typing import Any

from django.core.asgi import get_asgi_application
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.production")
# Under ASGI every request has a thread of its own: without a pool each would open a connection, and close it.
os.environ.setdefault("DATABASE_POOL", "16")

django_application: Any = get_asgi_application()

from django.conf import settings  # noqa: E402  settings are readable only from here on

application: Any = ProxyHeadersMiddleware(django_application, trusted_hosts=settings.TRUSTED_PROXIES)
