"""Where what is held differs from what the leases say."""

from django.db import connection

_ACCOUNTS = """
    SELECT account.id, account.code, account.held, coalesce(lent.rest, 0)::bigint
    FROM billing_ledgeraccount account LEFT JOIN (
        SELECT account_id, sum(granted - used) AS rest FROM billing_creditlease WHERE state <> 'closed' GROUP BY 1
    ) lent ON lent.account_id = account.id
    WHERE account.held <> coalesce(lent.rest, 0) ORDER BY account.id
"""
_WINDOWS = """
    SELECT budget.id, budget.owner, budget.leased_nano, coalesce(lent.rest, 0)::bigint
    FROM billing_budgetwindow budget LEFT JOIN (
        SELECT window_id, sum(granted - used) AS rest FROM billing_budgetlease WHERE state <> 'closed' GROUP BY 1
    ) lent ON lent.window_id = budget.id
    WHERE budget.leased_nano <> coalesce(lent.rest, 0) ORDER BY budget.id
"""

Row = tuple[int, str, int, int]


def accounts_that_differ() -> list[Row]:
    """Return id, code, held and leased of each account where the two differ."""
    return _rows(_ACCOUNTS)


def windows_that_differ() -> list[Row]:
    """Return id, owner, leased and the leases' sum of each budget window where the two differ."""
    return _rows(_WINDOWS)


def _rows(query: str) -> list[Row]:
    with connection.cursor() as cursor:
        cursor.execute(query)
        return [(int(row), str(name), int(held), int(leased)) for row, name, held, leased in cursor.fetchall()]
