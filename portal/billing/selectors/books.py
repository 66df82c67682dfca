"""What was booked on each UTC day, and the days that are frozen."""

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

from django.conf import settings
from django.db import connection
from django.db.models import QuerySet

from portal.billing.models import BooksDay, LedgerTx
from portal.billing.rules import books as rules
from portal.billing.rules import closing
from portal.billing.rules.accounts import Kind
from portal.billing.rules.books import Day, Flow
from portal.billing.rules.differences import Difference

RECOUNTED_DAYS = 60

_FLOWS = """
    SELECT (tx.created_at AT TIME ZONE 'UTC')::date, debit.kind, credit.kind, sum(part.amount)
    FROM billing_ledgertx tx
    JOIN billing_ledgertransfer part ON part.tx_id = tx.id
    JOIN billing_ledgeraccount debit ON debit.id = part.debit_account_id
    JOIN billing_ledgeraccount credit ON credit.id = part.credit_account_id
    WHERE tx.created_at >= %s AND tx.created_at < %s GROUP BY 1, 2, 3
"""
_CHARGED = """
    SELECT (tx.created_at AT TIME ZONE 'UTC')::date, count(*), sum(posting.charge_nano)
    FROM billing_ledgertx tx JOIN billing_usageposting posting ON posting.tx_id = tx.id
    WHERE tx.created_at >= %s AND tx.created_at < %s GROUP BY 1
"""


def days(*, first: date, last: date) -> dict[date, Day]:
    """Return every day from `first` to `last`, both included, as the ledger says it now."""
    bounds = [_midnight(first), _midnight(last + timedelta(days=1))]
    flows: dict[date, list[Flow]] = defaultdict(list)
    with connection.cursor() as cursor:
        cursor.execute(_FLOWS, bounds)
        for day, debit, credit, nano in cursor.fetchall():
            flows[day].append(Flow(Kind(debit), Kind(credit), int(nano)))
        cursor.execute(_CHARGED, bounds)
        charged = {day: (int(count), int(nano)) for day, count, nano in cursor.fetchall()}
    wanted = (first + timedelta(days=offset) for offset in range((last - first).days + 1))
    return {day: _day(flows[day], charged.get(day, (0, 0))) for day in wanted}


def frozen(*, limit: int = 62, before: date | None = None) -> QuerySet[BooksDay]:
    """Return frozen days, newest first, before the given one."""
    rows = BooksDay.objects.order_by("-day")
    return (rows.filter(day__lt=before) if before else rows)[:limit]


def last_frozen() -> BooksDay | None:
    """Return the newest frozen day."""
    return BooksDay.objects.order_by("-day").first()


def first_day() -> date | None:
    """Return the day on which anything was booked first."""
    at = LedgerTx.objects.order_by("created_at").values_list("created_at", flat=True).first()
    return at.astimezone(UTC).date() if at else None


def differences() -> Iterator[Difference]:
    """Yield frozen days whose digest is broken, that do not add up, or that the ledger no longer gives."""
    previous = ""
    recount: list[BooksDay] = []
    for row in BooksDay.objects.order_by("day"):
        expected = closing.day_digest(content=row.content, previous=previous)
        if (row.previous_sha256, row.sha256) != (previous, expected):
            yield Difference("books_day_changed", str(row), expected, row.sha256)
        if row.content["difference"] != "0":
            yield Difference("books_day_does_not_add_up", str(row), "0", str(row.content["difference"]))
        previous = row.sha256
        recount = [*recount[1 - RECOUNTED_DAYS :], row]
    if recount:
        yield from _recounted(recount)


def _recounted(rows: list[BooksDay]) -> Iterator[Difference]:
    found = days(first=rows[0].day, last=rows[-1].day)
    for row in rows:
        now = rules.to_json(found[row.day], date=str(row), currency=str(row.content["currency"]))
        if now != row.content:
            yield Difference("books_day_differs", str(row), str(row.content), str(now))


def content(*, day: date, found: Day) -> dict[str, object]:
    """Return a day as it is published."""
    return rules.to_json(found, date=f"{day:%Y-%m-%d}", currency=settings.CURRENCY)


def _day(flows: list[Flow], charged: tuple[int, int]) -> Day:
    requests, nano = charged
    return rules.day_of(requests=requests, charged_nano=nano, flows=flows)


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
