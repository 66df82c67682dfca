"""Daily partitions of the usage table: made ahead of time, dropped when theirs is over.

A day without one falls into the default partition.
"""

from collections.abc import Iterator
from datetime import date, datetime, timedelta

from django.db import OperationalError, connection, transaction
from psycopg import sql

from portal.metering.errors import UsageStillNeeded
from portal.metering.models import DroppedDay, UsageQueue

DAYS_AHEAD = 14
_PREFIX = "metering_usagerecord_"
_LONGEST_WAIT = "2s"


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
            name = _name(day)
            cursor.execute("SELECT to_regclass(%s)", [name])
            if cursor.fetchone()[0] is None:
                cursor.execute(
                    sql.SQL("CREATE TABLE {} PARTITION OF metering_usagerecord FOR VALUES FROM ({}) TO ({})").format(
                        sql.Identifier(name), sql.Literal(day), sql.Literal(day + timedelta(days=1))
                    )
                )
                yield name


def days_before(day: date) -> list[date]:
    """Return the days before `day` that have a partition, the oldest first."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT inhrelid::regclass::text FROM pg_inherits WHERE inhparent = 'metering_usagerecord'::regclass"
        )
        suffixes = [name.removeprefix(_PREFIX) for (name,) in cursor.fetchall()]
    found = [datetime.strptime(text, "%Y%m%d").date() for text in suffixes if text.isdigit()]  # noqa: DTZ007  a day
    return sorted(known for known in found if known < day)


def lock(day: date) -> None:
    """Keep everybody from the day's partition until the transaction ends. Raises UsageStillNeeded where it is read.

    Whoever waits for this lock holds up all who come after him, the gateways' records among them: so nobody waits long.
    """
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_LONGEST_WAIT)))
        try:
            cursor.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(sql.Identifier(_name(day))))
            cursor.execute("LOCK TABLE ONLY metering_usagerecord IN ACCESS EXCLUSIVE MODE")
        except OperationalError as error:
            raise UsageStillNeeded(f"the records of {day} are being read") from error


def drop(day: date, *, now: datetime) -> DroppedDay:
    """Drop the day's partition with all its records, inside the caller's transaction. Raises UsageStillNeeded."""
    if UsageQueue.objects.filter(opened_on=day).exists():
        raise UsageStillNeeded(f"records of {day} still wait for a reader")
    with connection.cursor() as cursor:
        cursor.execute(sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(_name(day))))
        records = int(cursor.fetchone()[0])
        cursor.execute(
            sql.SQL("ALTER TABLE metering_usagerecord DETACH PARTITION {}").format(sql.Identifier(_name(day)))
        )
        cursor.execute(sql.SQL("DROP TABLE {}").format(sql.Identifier(_name(day))))
    return DroppedDay.objects.create(day=day, records=records, dropped_at=now)


def _name(day: date) -> str:
    return f"{_PREFIX}{day:%Y%m%d}"
