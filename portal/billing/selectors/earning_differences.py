"""What must be equal about earnings: held, maturing, kept back, taken back: (code, SQL)."""

# ruff: noqa: S608  the queries are composed of constants alone

from portal.billing.selectors.account_sums import SUMS

QUERIES = (
    (
        "earning_without_maturity",
        """
        SELECT tx.idempotency_key, posted.earned::text, coalesce(due.amount, 0)::text
        FROM (SELECT tx_id, sum(provider_nano) AS earned FROM billing_usageposting GROUP BY 1) posted
        JOIN billing_ledgertx tx ON tx.id = posted.tx_id
        LEFT JOIN (SELECT tx_id, sum(amount_nano) AS amount FROM (
            SELECT tx_id, amount_nano FROM billing_earningmaturity
            UNION ALL SELECT held.tx_id, held.amount_nano FROM billing_heldearning held
                LEFT JOIN billing_ledgertx ended ON ended.id = held.ended_tx_id
                WHERE ended.kind IS DISTINCT FROM 'held_released'
        ) each GROUP BY 1) due ON due.tx_id = tx.id
        WHERE posted.earned <> coalesce(due.amount, 0)
        """,
    ),
    (
        "pending_differs_from_maturities",
        f"""
        SELECT account.code, coalesce(due.amount, 0)::text, (sums.credits - sums.debits)::text
        FROM ({SUMS}) sums JOIN billing_ledgeraccount account USING (id)
        LEFT JOIN (SELECT provider, sum(amount_nano - clawed_nano) AS amount FROM billing_earningmaturity
            WHERE matured_tx_id IS NULL GROUP BY 1) due ON due.provider = account.owner
        WHERE account.kind = 'provider_pending' AND sums.credits - sums.debits <> coalesce(due.amount, 0)
        """,
    ),
    (
        "held_differs_from_earnings",
        f"""
        SELECT account.code, coalesce(held.amount, 0)::text, (sums.credits - sums.debits)::text
        FROM ({SUMS}) sums JOIN billing_ledgeraccount account USING (id)
        LEFT JOIN (SELECT provider, sum(amount_nano - clawed_nano) AS amount FROM billing_heldearning
            WHERE ended_tx_id IS NULL GROUP BY 1) held ON held.provider = account.owner
        WHERE account.kind = 'provider_held' AND sums.credits - sums.debits <> coalesce(held.amount, 0)
        """,
    ),
    (
        "held_end_differs_from_ledger",
        """
        SELECT tx.idempotency_key, coalesce(ended.amount, 0)::text, moved.amount::text
        FROM billing_ledgertx tx
        JOIN (SELECT tx_id, sum(amount) AS amount FROM billing_ledgertransfer GROUP BY 1) moved ON moved.tx_id = tx.id
        LEFT JOIN (SELECT ended_tx_id, sum(amount_nano - clawed_nano) AS amount
            FROM billing_heldearning GROUP BY 1) ended ON ended.ended_tx_id = tx.id
        WHERE tx.kind IN ('held_released', 'held_expired') AND moved.amount IS DISTINCT FROM ended.amount
        """,
    ),
    (
        "matured_differs_from_ledger",
        """
        SELECT tx.idempotency_key, matured.amount::text, coalesce(moved.amount, 0)::text
        FROM (SELECT matured_tx_id, sum(amount_nano - clawed_nano) AS amount FROM billing_earningmaturity
            WHERE matured_tx_id IS NOT NULL AND amount_nano > clawed_nano GROUP BY 1) matured
        JOIN billing_ledgertx tx ON tx.id = matured.matured_tx_id
        LEFT JOIN (SELECT tx_id, sum(amount) AS amount FROM billing_ledgertransfer GROUP BY 1) moved
            ON moved.tx_id = tx.id
        WHERE matured.amount <> coalesce(moved.amount, 0)
        """,
    ),
    (
        "reserve_differs_from_parts",
        f"""
        SELECT account.code, coalesce(kept.amount, 0)::text, (sums.credits - sums.debits)::text
        FROM ({SUMS}) sums JOIN billing_ledgeraccount account USING (id)
        LEFT JOIN (SELECT provider, sum(amount_nano - clawed_nano) AS amount FROM billing_reservedearning
            WHERE released_tx_id IS NULL GROUP BY 1) kept ON kept.provider = account.owner
        WHERE account.kind = 'provider_reserve' AND sums.credits - sums.debits <> coalesce(kept.amount, 0)
        """,
    ),
    (
        "reserve_kept_differs_from_ledger",
        """
        SELECT tx.idempotency_key, coalesce(kept.amount, 0)::text, moved.amount::text
        FROM (SELECT part.tx_id, sum(part.amount) AS amount FROM billing_ledgertransfer part
            JOIN billing_ledgeraccount account ON account.id = part.credit_account_id
            WHERE account.kind = 'provider_reserve' GROUP BY 1) moved
        JOIN billing_ledgertx tx ON tx.id = moved.tx_id
        LEFT JOIN (SELECT tx_id, sum(amount_nano) AS amount FROM billing_reservedearning GROUP BY 1) kept
            ON kept.tx_id = tx.id
        WHERE moved.amount <> coalesce(kept.amount, 0)
        """,
    ),
    (
        "clawed_differs_from_adjustments",
        """
        SELECT provider.public_id, concat_ws('/', taken.held, taken.pending, taken.reserve),
            concat_ws('/', coalesce(held.clawed, 0), coalesce(early.clawed, 0), coalesce(kept.clawed, 0))
        FROM providers_provider provider
        JOIN (SELECT provider_id, sum(from_held_nano) AS held, sum(from_pending_nano) AS pending,
                sum(from_reserve_nano) AS reserve
            FROM billing_provideradjustment WHERE state = 'booked' GROUP BY 1) taken ON taken.provider_id = provider.id
        LEFT JOIN (SELECT provider, sum(clawed_nano) AS clawed FROM billing_heldearning GROUP BY 1) held
            ON held.provider = provider.public_id
        LEFT JOIN (SELECT maturity.provider, sum(maturity.clawed_nano - coalesce(before.clawed_nano, 0)) AS clawed
            FROM billing_earningmaturity maturity LEFT JOIN billing_heldearning before USING (tx_id, provider)
            GROUP BY 1) early ON early.provider = provider.public_id
        LEFT JOIN (SELECT provider, sum(clawed_nano) AS clawed FROM billing_reservedearning GROUP BY 1) kept
            ON kept.provider = provider.public_id
        WHERE taken.held <> coalesce(held.clawed, 0) OR taken.pending <> coalesce(early.clawed, 0)
            OR taken.reserve <> coalesce(kept.clawed, 0)
        """,
    ),
    (
        "adjustment_differs_from_ledger",
        """
        SELECT adjustment.public_id, adjustment.amount_nano::text, coalesce(sum(part.amount), 0)::text
        FROM billing_provideradjustment adjustment
        LEFT JOIN billing_ledgertransfer part ON part.tx_id = adjustment.tx_id
        WHERE adjustment.state = 'booked'
        GROUP BY adjustment.id HAVING adjustment.amount_nano <> coalesce(sum(part.amount), 0)
        """,
    ),
)
