"""What must be equal about grants, bank transfers, postpaid lines and bills: (code, SQL)."""

QUERIES = (
    (
        "grant_differs_from_ledger",
        """
        SELECT given.public_id, given.amount_nano || '/' || given.expired_nano,
            coalesce(posted.given, 0) || '/' || coalesce(posted.expired, 0)
        FROM billing_promogrant given
        CROSS JOIN LATERAL (
            SELECT (SELECT sum(part.amount) FROM billing_ledgertransfer part WHERE part.tx_id = given.tx_id) AS given,
                (SELECT sum(part.amount) FROM billing_ledgertransfer part
                    JOIN billing_ledgertx tx ON tx.id = part.tx_id
                    WHERE tx.kind = 'promo_expiry' AND tx.source_id = given.public_id) AS expired
        ) posted
        WHERE given.amount_nano <> coalesce(posted.given, 0) OR given.expired_nano <> coalesce(posted.expired, 0)
        """,
    ),
    (
        "bank_transfer_differs_from_ledger",
        """
        SELECT transfer.public_id, transfer.state, coalesce(posted.booked, 0) || ' booked, ' ||
            coalesce(posted.reversed, 0) || ' reversed'
        FROM billing_banktransfer transfer
        CROSS JOIN LATERAL (
            SELECT count(*) FILTER (WHERE tx.kind = 'bank_credit') AS booked,
                count(*) FILTER (WHERE tx.kind = 'bank_credit_reversed') AS reversed
            FROM billing_ledgertx tx
            WHERE tx.source_type = 'bank_transfer' AND tx.source_id = transfer.public_id
        ) posted
        WHERE (posted.booked, posted.reversed) IS DISTINCT FROM (CASE transfer.state
            WHEN 'booked' THEN 1 WHEN 'reversed' THEN 1 ELSE 0 END::bigint,
            CASE transfer.state WHEN 'reversed' THEN 1 ELSE 0 END::bigint)
        """,
    ),
    (
        "postpaid_line_above_limit",
        """
        SELECT line.code, '<= ' || (ceiling.debits - ceiling.credits), (line.credits - line.debits)::text
        FROM billing_ledgeraccount line
        JOIN billing_ledgeraccount ceiling ON ceiling.owner = line.owner AND ceiling.kind = 'postpaid_limit'
        WHERE line.kind = 'postpaid_line' AND line.credits - line.debits > ceiling.debits - ceiling.credits
        """,
    ),
    (
        "bill_differs_from_ledger",
        """
        SELECT bill.public_id, bill.drawn_nano || '/' || bill.total_drawn_nano,
            coalesce(drawn.month, 0) || '/' || coalesce(drawn.ever, 0)
        FROM billing_postpaidbill bill JOIN accounts_organization owner ON owner.id = bill.organization_id
        CROSS JOIN LATERAL (
            SELECT sum(part.amount) FILTER (WHERE tx.effective_at >= bill.starts_at) AS month,
                sum(part.amount) AS ever
            FROM billing_ledgeraccount line
            JOIN billing_ledgertransfer part ON part.debit_account_id = line.id
            JOIN billing_ledgertx tx ON tx.id = part.tx_id
            WHERE line.code = 'postpaid_line:' || owner.public_id AND tx.kind <> 'postpaid_limit'
                AND tx.effective_at < bill.ends_at
        ) drawn
        WHERE bill.drawn_nano <> coalesce(drawn.month, 0) OR bill.total_drawn_nano <> coalesce(drawn.ever, 0)
        """,
    ),
)
