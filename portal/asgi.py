"""The portal's ASGI application. Forwarded addresses and schemes count only from TRUSTED_PROXIES."""

import os
from typing import Any

from django.core.asgi import get_asgi_application
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.production")

django_application: Any = get_asgi_application()

from django.conf import settings  # noqa: E402  settings are readable only from here on

application: Any = ProxyHeadersMiddleware(django_application, trusted_hosts=settings.TRUSTED_PROXIES)
