"""A number for everything the database holds, to prove that a refused request changed nothing."""

from django.apps import apps
from django.db import connection

# What a mere visit may write.
_VISITS = {"django_session"}


def fingerprint() -> list[tuple[str, int, int]]:
    """Return rows and a hash for each table."""
    tables = sorted(set(connection.introspection.table_names()) - _VISITS)
    parts = [
        f"SELECT '{table}', count(*), coalesce(sum(hashtext(t::text)::bigint), 0) FROM \"{table}\" t"  # noqa: S608
        for table in tables
    ]
    with connection.cursor() as cursor:
        cursor.execute(" UNION ALL ".join(parts))
        return sorted(cursor.fetchall())


def names_of_all_models() -> set[str]:
    """Return the tables that Django knows, which the fingerprint must cover."""
    return {model._meta.db_table for model in apps.get_models(include_auto_created=True)}
