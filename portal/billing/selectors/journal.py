"""The journal: every transaction with its transfers, by pages that cost the same however deep they lie."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from django.db import connection
from django.db.models import Q, QuerySet

from portal.billing.models import LedgerAccount, LedgerTransfer, LedgerTx

_CHUNK = 2000

Place = tuple[datetime, UUID]  # when a transaction took effect, and its id: the order of the journal

# Jumps from kind to kind in the index instead of reading every transaction.
_KINDS = """
    WITH RECURSIVE found AS (
        (SELECT kind FROM billing_ledgertx ORDER BY kind LIMIT 1)
        UNION ALL
        SELECT (SELECT tx.kind FROM billing_ledgertx tx WHERE tx.kind > found.kind ORDER BY tx.kind LIMIT 1)
        FROM found WHERE found.kind IS NOT NULL
    )
    SELECT kind FROM found WHERE kind IS NOT NULL
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """Which transactions are asked for; an empty field asks for all. Days are UTC, both included."""

    first: date | None = None
    last: date | None = None
    kind: str = ""
    owner: str = ""
    source: str = ""


def newest(*, asked: Asked, before: Place | None = None, limit: int = 50) -> list[LedgerTx]:
    """Return transactions with their transfers, newest first, from the one before `before` on."""
    rows = _rows(asked)
    if before:
        at, tx_id = before
        rows = rows.filter(effective_at__lte=at).filter(Q(effective_at__lt=at) | Q(pk__lt=tx_id))
    return list(_with_transfers(rows).order_by("-effective_at", "-id")[:limit])


def oldest(*, asked: Asked) -> Iterator[LedgerTx]:
    """Yield every transaction with its transfers, oldest first, for an export."""
    place: Place | None = None
    while True:
        rows = _rows(asked)
        if place:
            rows = rows.filter(effective_at__gte=place[0]).filter(Q(effective_at__gt=place[0]) | Q(pk__gt=place[1]))
        page = list(_with_transfers(rows).order_by("effective_at", "id")[:_CHUNK])
        yield from page
        if len(page) < _CHUNK:
            return
        place = (page[-1].effective_at, page[-1].pk)


def kinds() -> list[str]:
    """Return the kinds of transactions that occur, by name."""
    with connection.cursor() as cursor:
        cursor.execute(_KINDS)
        return [row[0] for row in cursor.fetchall()]


def _rows(asked: Asked) -> QuerySet[LedgerTx]:
    rows = LedgerTx.objects.all()
    if asked.first:
        rows = rows.filter(effective_at__gte=_midnight(asked.first))
    if asked.last:
        rows = rows.filter(effective_at__lt=_midnight(asked.last) + timedelta(days=1))
    if asked.kind:
        rows = rows.filter(kind=asked.kind)
    if asked.source:
        rows = rows.filter(Q(source_id=asked.source) | Q(idempotency_key=asked.source))
    if asked.owner:
        owned = list(LedgerAccount.objects.filter(owner=asked.owner).values_list("pk", flat=True))
        debited = LedgerTransfer.objects.filter(debit_account__in=owned).values("tx")
        credited = LedgerTransfer.objects.filter(credit_account__in=owned).values("tx")
        rows = rows.filter(pk__in=debited.union(credited))
    return rows


def _with_transfers(rows: QuerySet[LedgerTx]) -> QuerySet[LedgerTx]:
    return rows.prefetch_related("transfers__debit_account", "transfers__credit_account")


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
