"""What must be true of the books after every single event, asked in one query.

`reconcile.differences` asks the same and more, in dozens of queries with words for people; the machines ask it at the
end of each run. Here each line is a rule of its own, written down again so that neither is the other's witness.
"""

from django.db import connection

_BROKEN = """
WITH moved AS (
    SELECT account.id, account.code, account.kind, account.owner, account.debits, account.credits, account.held,
           account.has_floor, account.keeps_totals, account.is_debit_normal,
           coalesce((SELECT sum(amount) FROM billing_ledgertransfer WHERE debit_account_id = account.id), 0)
               AS debited,
           coalesce((SELECT sum(amount) FROM billing_ledgertransfer WHERE credit_account_id = account.id), 0)
               AS credited
      FROM billing_ledgeraccount AS account
), standing AS (
    SELECT *, CASE WHEN is_debit_normal THEN debited - credited ELSE credited - debited END AS balance FROM moved
)
SELECT 'totals differ from the rows', code FROM standing
 WHERE keeps_totals AND (debits, credits) <> (debited, credited)
UNION ALL
SELECT 'less than nothing is free', code FROM standing WHERE has_floor AND balance < held
UNION ALL
SELECT 'debits differ from credits', '' FROM standing HAVING sum(debited) <> sum(credited)
UNION ALL
SELECT 'held differs from the leases', code FROM standing
 WHERE held <> coalesce((SELECT sum(granted - used) FROM billing_creditlease
                          WHERE account_id = standing.id AND state <> 'closed'), 0)
UNION ALL
SELECT 'charges differ from their transfers', tx.id::text FROM billing_ledgertx AS tx
 WHERE tx.kind = 'usage'
   AND (SELECT sum(charge_nano) FROM billing_usageposting WHERE tx_id = tx.id)
    <> (SELECT sum(amount) FROM billing_ledgertransfer WHERE tx_id = tx.id)
UNION ALL
SELECT 'pending differs from what has not matured', code FROM standing
 WHERE kind = 'provider_pending'
   AND balance <> coalesce((SELECT sum(amount_nano - clawed_nano) FROM billing_earningmaturity
                             WHERE provider = standing.owner AND matured_tx_id IS NULL), 0)
UNION ALL
SELECT 'reserve differs from what is kept back', code FROM standing
 WHERE kind = 'provider_reserve'
   AND balance <> coalesce((SELECT sum(amount_nano - clawed_nano) FROM billing_reservedearning
                             WHERE provider = standing.owner AND released_tx_id IS NULL), 0)
"""
_BALANCES = """
SELECT account.code,
       sum(CASE WHEN (transfer.debit_account_id = account.id) = account.is_debit_normal THEN amount ELSE -amount END)
  FROM billing_ledgeraccount AS account
  JOIN billing_ledgertransfer AS transfer ON account.id IN (debit_account_id, credit_account_id)
 WHERE account.kind = ANY(%s)
 GROUP BY account.code
"""
_CHARGED = """
SELECT CASE WHEN NOT EXISTS (SELECT FROM metering_usagequeue WHERE reader = 'billing')
            THEN coalesce(sum(charge_nano), 0) END
  FROM billing_usageposting
"""


def charged() -> int | None:
    """Return what all booked usage was charged (nano); None while some of it still waits to be booked."""
    with connection.cursor() as cursor:
        cursor.execute(_CHARGED)
        (nano,) = cursor.fetchone()
    return None if nano is None else int(nano)


def broken() -> list[tuple[str, str]]:
    """Return each rule that does not hold, with what it does not hold for."""
    with connection.cursor() as cursor:
        cursor.execute(_BROKEN)
        return [(rule, subject) for rule, subject in cursor.fetchall()]


def balances(*kinds: str) -> dict[str, int]:
    """Return the balances (nano) of all accounts of these kinds that are not nothing, by code, from the rows alone."""
    with connection.cursor() as cursor:
        cursor.execute(_BALANCES, [list(kinds)])
        return {code: int(balance) for code, balance in cursor.fetchall() if balance}
