"""What must hold of prices and availability pay, as queries that return only what does not: (code, SQL)."""

QUERIES = (
    (
        "availability_differs",
        """
        SELECT tx.idempotency_key, coalesce(paid.amount_nano, 0) || '/' || coalesce(paid.amount_nano, 0),
            moved.amount || '/' || coalesce(due.amount, 0)
        FROM billing_ledgertx tx
        LEFT JOIN billing_availabilityhour paid ON paid.tx_id = tx.id
        CROSS JOIN LATERAL (SELECT coalesce(sum(part.amount), 0) AS amount
            FROM billing_ledgertransfer part WHERE part.tx_id = tx.id) moved
        LEFT JOIN LATERAL (SELECT sum(amount_nano) AS amount
            FROM billing_earningmaturity maturity WHERE maturity.tx_id = tx.id) due ON true
        WHERE tx.kind = 'availability' AND (paid.id IS NULL OR moved.amount <> paid.amount_nano
            OR coalesce(due.amount, 0) <> paid.amount_nano)
        """,
    ),
    (
        "price_not_in_force",
        """
        SELECT usage.request_id || '/' || usage.attempt, 'a price that holds',
            'version ' || price.version || ', canceled'
        FROM billing_priceend ended
        JOIN billing_priceversion price ON price.id = ended.version_id AND ended.at <= price.effective_from
        JOIN metering_usagerecord usage ON usage.price_version_id = price.id
        """,
    ),
    (
        "price_of_another",
        """
        SELECT usage.request_id || '/' || usage.attempt, 'organization ' || price.organization_id,
            'organization ' || usage.organization_id
        FROM billing_priceversion price
        JOIN metering_usagerecord usage ON usage.price_version_id = price.id
        WHERE price.organization_id IS NOT NULL AND price.organization_id <> usage.organization_id
        """,
    ),
)
