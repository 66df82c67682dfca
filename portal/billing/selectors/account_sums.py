"""What the transfers of each account add up to, as a query for others: (id, debits, credits)."""

SUMS = """
    SELECT account.id, coalesce(debit.total, 0) AS debits, coalesce(credit.total, 0) AS credits
    FROM billing_ledgeraccount account
    LEFT JOIN (SELECT debit_account_id AS id, sum(amount) AS total FROM billing_ledgertransfer GROUP BY 1) debit
        USING (id)
    LEFT JOIN (SELECT credit_account_id AS id, sum(amount) AS total FROM billing_ledgertransfer GROUP BY 1) credit
        USING (id)
"""
