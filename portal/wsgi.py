"""The portal's WSGI application, for servers that speak nothing else."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.production")

application = get_wsgi_application()
