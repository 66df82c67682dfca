"""Tells every process that something changed: PostgreSQL's NOTIFY with the transaction, Valkey's PUBLISH after it.

Either channel alone is enough; a gateway process that has lost both for ten seconds stops admitting.
"""

import logging

import redis
from django.conf import settings
from django.db import transaction

from portal.core import db

CHANNEL = "poolhouse_changes"

log = logging.getLogger(__name__)
_clients: dict[str, "redis.Redis"] = {}


def announce(topic: str, subject: str = "") -> None:
    """Announce `topic:subject` when the current transaction commits, e.g. `keys:k7f3…`, `prices`, `leases:42`."""
    message = f"{topic}:{subject}"
    db.notify(CHANNEL, message)
    transaction.on_commit(lambda: _publish(message))


def _publish(message: str) -> None:
    try:
        _client().publish(CHANNEL, message)
    except redis.exceptions.RedisError as error:
        log.warning("bus.publish_failed", extra={"topic": message, "reason": type(error).__name__})


def _client() -> "redis.Redis":
    url = settings.REDIS_URL
    if url not in _clients:
        _clients[url] = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1)
    return _clients[url]
