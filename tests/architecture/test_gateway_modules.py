"""A gateway process carries neither a task runner nor the web side of Django: seen in a real process."""

import os
import subprocess
import sys

from tests.architecture import source

FORBIDDEN = (
    "celery",
    "kombu",
    "rest_framework",
    "allauth",
    "drf_spectacular",
    "django.contrib.admin",
    "portal.payouts",
    # A card is charged by the worker that notices low credit, never on a request's way.
    "portal.billing.services.auto_topups",
    "stripe",
)
SCRIPT = f"""
import sys
import portal.gateway.asgi
found = [name for name in {FORBIDDEN!r} if name in sys.modules]
print(",".join(found) or "clean")
"""


def test_a_gateway_process_stays_slim() -> None:
    begun = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "DJANGO_SETTINGS_MODULE": "portal.settings.gateway", "POOLHOUSE_MODE": "local"},
        cwd=source.ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert begun.returncode == 0, begun.stderr
    assert begun.stdout.strip() == "clean"
