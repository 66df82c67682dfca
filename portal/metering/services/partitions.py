"""Daily partitions of the usage table: made ahead of time; a day without one falls into the default partition."""

from collections.abc import Iterator
from datetime import date, timedelta

from django.db import connection, transaction
from psycopg import sql

DAYS_AHEAD = 14


def ensure(*, today: date, days: int = DAYS_AHEAD) -> list[str]:
    """Make the partitions of `today` and the `days` after it that are missing; return the names of the new ones.

    A day whose rows already lie in the default partition stays there: usage rows are never moved.
    """
    wanted = [today + timedelta(days=offset) for offset in range(days + 1)]
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended('poolhouse.metering.partitions', 0))")
        cursor.execute("SELECT opened_on FROM metering_usagerecord_default GROUP BY opened_on")
        settled = {row[0] for row in cursor.fetchall()}
        return list(_make([day for day in wanted if day not in settled]))


def _make(days: list[date]) -> Iterator[str]:
    with connection.cursor() as cursor:
        for day in days:
            name = f"metering_usagerecord_{day:%Y%m%d}"
            cursor.execute("SELECT to_regclass(%s)", [name])
            if cursor.fetchone()[0] is None:
                cursor.execute(
                    sql.SQL("CREATE TABLE {} PARTITION OF metering_usagerecord FOR VALUES FROM ({}) TO ({})").format(
                        sql.Identifier(name), sql.Literal(day), sql.Literal(day + timedelta(days=1))
                    )
                )
                yield name
