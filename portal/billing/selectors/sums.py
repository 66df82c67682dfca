"""What every account came to at a moment: from the last month closed before it, and what took effect since."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from django.db import connection

from portal.billing.models import ClosedPeriod
from portal.billing.rules import accounts as chart

_ALWAYS = datetime(1, 1, 1, tzinfo=UTC)

_Given = dict[str, int | datetime | list[int] | None]

_SUMS = """
    SELECT account.id, account.code, account.kind, account.owner, account.currency, account.is_debit_normal,
        coalesce(base.debits, 0) + coalesce(debit.total, 0), coalesce(base.credits, 0) + coalesce(credit.total, 0)
    FROM billing_ledgeraccount account
    LEFT JOIN billing_periodbalance base ON base.account_id = account.id AND base.period_id = %(base)s
    LEFT JOIN (SELECT debit_account_id AS id, sum(amount) AS total FROM billing_ledgertransfer
        WHERE effective_at >= %(since)s AND effective_at < %(at)s GROUP BY 1) debit ON debit.id = account.id
    LEFT JOIN (SELECT credit_account_id AS id, sum(amount) AS total FROM billing_ledgertransfer
        WHERE effective_at >= %(since)s AND effective_at < %(at)s GROUP BY 1) credit ON credit.id = account.id
    WHERE coalesce(base.debits, debit.total, base.credits, credit.total) IS NOT NULL
    ORDER BY account.code
"""

# Each account is read from its own part of the index, so that a few accounts of a large ledger are cheap.
_SUMS_OF = """
    SELECT account.id,
        coalesce(base.debits, 0) + coalesce((SELECT sum(amount) FROM billing_ledgertransfer
            WHERE debit_account_id = account.id AND effective_at >= %(since)s
                AND (effective_at, id) < (%(at)s, %(before)s)), 0),
        coalesce(base.credits, 0) + coalesce((SELECT sum(amount) FROM billing_ledgertransfer
            WHERE credit_account_id = account.id AND effective_at >= %(since)s
                AND (effective_at, id) < (%(at)s, %(before)s)), 0)
    FROM billing_ledgeraccount account
    LEFT JOIN billing_periodbalance base ON base.account_id = account.id AND base.period_id = %(base)s
    WHERE account.id = ANY(%(ids)s)
"""


@dataclass(frozen=True, slots=True)
class AccountSums:
    """One account's debits and credits before a moment, in nano units."""

    account_id: int
    code: str
    kind: str
    owner: str
    currency: str
    is_debit_normal: bool
    debits: int
    credits: int

    @property
    def balance_nano(self) -> int:
        """The balance on the account's normal side."""
        return chart.signed_balance(is_debit_normal=self.is_debit_normal, debits=self.debits, credits_=self.credits)


def sums_at(*, at: datetime, is_whole: bool = False) -> list[AccountSums]:
    """Return every account that anything has moved before `at`, by code.

    Reads what is new since the last close, or all of it where `is_whole`: both must say the same.
    """
    given = _given(None if is_whole else last_close(at=at))
    given["at"] = at
    with connection.cursor() as cursor:
        cursor.execute(_SUMS, given)
        return [AccountSums(*row[:6], *(int(total) for total in row[6:])) for row in cursor.fetchall()]


def sums_of(*, account_ids: Iterable[int], at: datetime, before: int = 0) -> dict[int, tuple[int, int]]:
    """Return these accounts' debits and credits before `at`, and of transfers at that moment with a lower id."""
    given = _given(last_close(at=at))
    given.update(at=at, before=before, ids=list(account_ids))
    with connection.cursor() as cursor:
        cursor.execute(_SUMS_OF, given)
        return {row[0]: (int(row[1]), int(row[2])) for row in cursor.fetchall()}


def last_close(*, at: datetime) -> ClosedPeriod | None:
    """Return the last month that was closed and ended at or before `at`."""
    return ClosedPeriod.objects.filter(ends_at__lte=at).order_by("-ends_at").first()


def _given(base: ClosedPeriod | None) -> _Given:
    return {"base": base.pk if base else None, "since": base.ends_at if base else _ALWAYS}
