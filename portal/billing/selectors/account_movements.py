"""What moved one account, with the balance after each movement, by pages that cost the same however deep they lie."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from uuid import UUID

from django.db import connection

from portal.billing.models import LedgerAccount, LedgerTx
from portal.billing.rules import accounts as chart
from portal.billing.selectors import sums

_CHUNK = 5000
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)

Place = tuple[datetime, int]  # when a transfer took effect, and its id: the order of an account's movements


@dataclass(frozen=True, slots=True)
class Asked:
    """Which movements are asked for; days are UTC, both included; `owner` is the counter-account's."""

    first: date | None = None
    last: date | None = None
    kind: str = ""
    owner: str = ""

    @property
    def is_gapless(self) -> bool:
        """Whether every movement between the first and the last one is shown."""
        return not (self.kind or self.owner)


@dataclass(frozen=True, slots=True)
class Movement:
    """One transfer as its account sees it; amounts are nano units, positive on the account's normal side."""

    transfer_id: int
    at: datetime
    booked_at: datetime
    tx_id: UUID
    kind: str
    source_type: str
    source_id: str
    note: str
    counter: str
    amount_nano: int
    balance_nano: int | None = None

    @property
    def place(self) -> Place:
        """Where it stands among its account's movements."""
        return self.at, self.transfer_id


_SIDE = """
    SELECT part.id, part.effective_at, part.tx_id, {sign}part.amount AS amount, part.{other}_account_id AS counter_id
    FROM billing_ledgertransfer part
    WHERE part.{mine}_account_id = %(account)s
        AND part.effective_at >= %(first)s AND part.effective_at < %(last)s
        AND (part.effective_at, part.id) {compare} (%(at)s, %(id)s) {only}
    ORDER BY part.effective_at {order}, part.id {order} LIMIT %(limit)s
"""
# Of a kind that is everywhere the next movements are near; of a rare one they are found from its transactions.
_ONLY_KIND = " AND EXISTS (SELECT 1 FROM billing_ledgertx tx WHERE tx.id = part.tx_id AND tx.kind = %(kind)s)"
_ONLY_RARE_KIND = " AND part.tx_id = ANY(ARRAY(SELECT tx.id FROM billing_ledgertx tx WHERE tx.kind = %(kind)s))"
_RARE = 20_000
_ONLY_OWNER = " AND part.{other}_account_id IN (SELECT id FROM billing_ledgeraccount WHERE owner = %(owner)s)"
_PAGE = """
    SELECT part.id, part.effective_at, tx.created_at, tx.id, tx.kind, tx.source_type, tx.source_id, tx.note,
        counter.code, part.amount
    FROM (({debits}) UNION ALL ({credits})) part
    JOIN billing_ledgertx tx ON tx.id = part.tx_id
    JOIN billing_ledgeraccount counter ON counter.id = part.counter_id
    ORDER BY part.effective_at {order}, part.id {order} LIMIT %(limit)s
"""


def newest(*, account: LedgerAccount, asked: Asked, before: Place | None = None, limit: int = 50) -> list[Movement]:
    """Return movements, newest first, from the one before `before` on; with balances where the list has no gaps."""
    rows = _fetch(account, asked, before or (_LAST, 0), is_backward=True, limit=limit)
    if not rows or not asked.is_gapless:
        return rows
    balance = _balance_before(account, rows[-1].place)
    return list(reversed(_running(reversed(rows), balance)))


def oldest(*, account: LedgerAccount, asked: Asked) -> Iterator[Movement]:
    """Yield every movement, oldest first, for an export; with balances where the list has no gaps."""
    place, balance = (_FIRST, 0), None
    while rows := _fetch(account, asked, place, is_backward=False, limit=_CHUNK):
        if asked.is_gapless:
            rows = _running(rows, _balance_before(account, rows[0].place) if balance is None else balance)
            balance = rows[-1].balance_nano
        yield from rows
        place = rows[-1].place


def _fetch(account: LedgerAccount, asked: Asked, place: Place, *, is_backward: bool, limit: int) -> list[Movement]:
    order, compare = ("DESC", "<") if is_backward else ("ASC", ">")
    sides = {}
    only_kind = _only(asked.kind)
    for mine, other in (("debit", "credit"), ("credit", "debit")):
        only = only_kind + (_ONLY_OWNER.format(other=other) if asked.owner else "")
        sign = "" if (mine == "debit") == account.is_debit_normal else "-"
        sides[f"{mine}s"] = _SIDE.format(mine=mine, other=other, sign=sign, only=only, order=order, compare=compare)
    given: dict[str, int | str | datetime] = {
        "account": account.pk,
        "first": _midnight(asked.first) if asked.first else _FIRST,
        "last": _midnight(asked.last) + timedelta(days=1) if asked.last else _LAST,
        "at": place[0],
        "id": place[1],
        "kind": asked.kind,
        "owner": asked.owner,
        "limit": limit,
    }
    with connection.cursor() as cursor:
        cursor.execute(_PAGE.format(**sides, order=order), given)
        return [Movement(*row[:9], *(int(nano) for nano in row[9:])) for row in cursor.fetchall()]


def _only(kind: str) -> str:
    if not kind:
        return ""
    some = LedgerTx.objects.filter(kind=kind).order_by()[: _RARE + 1]
    return _ONLY_RARE_KIND if some.count() <= _RARE else _ONLY_KIND


def _balance_before(account: LedgerAccount, place: Place) -> int:
    at, transfer_id = place
    debits, credits_ = sums.sums_of(account_ids=[account.pk], at=at, before=transfer_id)[account.pk]
    return chart.signed_balance(is_debit_normal=account.is_debit_normal, debits=debits, credits_=credits_)


def _running(rows: Iterator[Movement] | list[Movement], balance: int) -> list[Movement]:
    """Return the rows, oldest first, each with the balance after it."""
    found = []
    for row in rows:
        balance += row.amount_nano
        found.append(replace(row, balance_nano=balance))
    return found


def _midnight(day: date) -> datetime:
    return datetime(day.year, day.month, day.day, tzinfo=UTC)
