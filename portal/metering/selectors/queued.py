"""What readers have yet to take from the queue."""

from django.db import connection

from portal.metering.models import Reader, UsageQueue

_CHARGE = """
    SELECT coalesce(sum(usage.{amounts}[array_position(usage.{column}, %s)]), 0)::bigint
    FROM metering_usagerecord usage JOIN metering_usagequeue queue USING (opened_on, request_id, attempt)
    WHERE queue.reader = %s AND usage.{column} @> ARRAY[%s]::bigint[]
"""


def queued_count(*, reader: Reader) -> int:
    """Return how many records the reader is behind."""
    return UsageQueue.objects.filter(reader=reader).count()


def queued_charge(*, reader: Reader, lease_id: int) -> int:
    """Return the charges against one credit lease that the reader has not taken yet."""
    return _sum("lease_ids", "lease_charges", reader, lease_id)


def queued_budget_charge(*, reader: Reader, budget_lease_id: int) -> int:
    """Return the charges against one budget lease that the reader has not taken yet."""
    return _sum("budget_lease_ids", "budget_charges", reader, budget_lease_id)


def _sum(column: str, amounts: str, reader: Reader, lease_id: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute(_CHARGE.format(column=column, amounts=amounts), [lease_id, reader.value, lease_id])
        return int(cursor.fetchone()[0])
