"""Small pieces of PostgreSQL that Django has no word for."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection, transaction


def notify(channel: str, payload: str = "") -> None:
    """Send NOTIFY on `channel` when the current transaction commits."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_notify(%s, %s)", [channel, payload])


@contextmanager
def advisory_lock(name: str) -> Iterator[None]:
    """Hold a transaction-scoped advisory lock named `name`; waits for it."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])
        yield


@contextmanager
def one_snapshot() -> Iterator[None]:
    """Let everything inside read one state of the database and write nothing; inside a transaction it is that one."""
    is_own_transaction = not connection.in_atomic_block
    with transaction.atomic():
        if is_own_transaction:
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        yield
