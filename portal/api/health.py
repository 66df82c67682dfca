"""Liveness and readiness of the portal, with the reasons by name."""

import logging

import redis
from django.conf import settings
from django.db import Error as DatabaseError
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from portal.core import audience

log = logging.getLogger(__name__)
_known_good: set[str] = set()


@audience.declare(audience.PUBLIC)
@require_safe
def healthz(_request: HttpRequest) -> JsonResponse:
    """Say that the process answers."""
    return JsonResponse({"status": "ok"})


@audience.declare(audience.PUBLIC)
@require_safe
def readyz(_request: HttpRequest) -> JsonResponse:
    """Say whether this process can do its work, and if not, why."""
    reasons = [*_database_reasons(), *_broker_reasons()]
    if reasons:
        log.warning("portal.not_ready", extra={"reasons": reasons})
        return JsonResponse({"status": "unready", "reasons": reasons}, status=503)
    return JsonResponse({"status": "ready", "reasons": []})


def _database_reasons() -> list[str]:
    try:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
        return _migration_reasons()
    except DatabaseError:
        return ["database_unreachable"]


def _migration_reasons() -> list[str]:
    if "migrations" in _known_good:
        return []
    executor = MigrationExecutor(connection)
    if executor.migration_plan(executor.loader.graph.leaf_nodes()):
        return ["migrations_pending"]
    _known_good.add("migrations")
    return []


def _broker_reasons() -> list[str]:
    client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=1, socket_timeout=1)
    try:
        client.ping()
    except redis.exceptions.RedisError:
        return ["broker_unreachable"]
    finally:
        client.close()
    return []
