"""Prepares the test database: Django empties it with TRUNCATE, which our append-only tables refuse."""

from django.db import connection

_TRUNCATE_TRIGGERS = """
SELECT c.oid::regclass::text, t.tgname, t.tgenabled::text
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
WHERE NOT t.tgisinternal AND t.tgtype & 32 <> 0 AND t.tgparentid = 0
"""


def let_tests_truncate() -> None:
    """Disable, in the test database alone, the triggers that refuse TRUNCATE; the migrations must have enabled them."""
    with connection.cursor() as cursor:
        cursor.execute(_TRUNCATE_TRIGGERS)
        for table, trigger, _enabled in cursor.fetchall():
            cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER {trigger}")
