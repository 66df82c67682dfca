"""Money that was set aside for a payout or a refund and has been neither sent nor given back for too long."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from django.db import connection

from portal.billing.rules.accounts import Kind
from portal.billing.rules.differences import Difference

SETTLED_WITHIN = timedelta(hours=48)

_OLD = """
    SELECT account.code, tx.source_id, sum(moved.amount), min(tx.created_at)
    FROM billing_ledgeraccount account
    JOIN (
        SELECT credit_account_id AS account_id, tx_id, amount FROM billing_ledgertransfer
        UNION ALL
        SELECT debit_account_id, tx_id, -amount FROM billing_ledgertransfer
    ) moved ON moved.account_id = account.id
    JOIN billing_ledgertx tx ON tx.id = moved.tx_id
    WHERE account.kind = ANY(%s) AND account.credits <> account.debits
        AND NOT EXISTS (SELECT 1 FROM billing_refund refund
            WHERE refund.public_id = tx.source_id AND refund.state = 'requested')
    GROUP BY 1, 2 HAVING sum(moved.amount) <> 0 AND min(tx.created_at) < %s
    ORDER BY 1, 2
"""


def differences(*, now: datetime) -> Iterator[Difference]:
    """Yield each payout or refund whose money has waited in clearing for more than 48 hours.

    A refund that an operator has not decided on waits for that.
    """
    with connection.cursor() as cursor:
        cursor.execute(_OLD, [[Kind.PAYOUT_CLEARING, Kind.REFUND_CLEARING], now - SETTLED_WITHIN])
        for code, source, nano, since in cursor.fetchall():
            subject = f"{code} {source}"
            yield Difference(
                "clearing_too_old", subject, "settled within 48 h", f"{nano} nano since {since:%Y-%m-%d %H:%M}"
            )
