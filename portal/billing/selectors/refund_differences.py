"""Where refunds, disputes and stops of spending differ from the ledger, as queries that return only what does."""

# ruff: noqa: S608  the queries are composed of constants of this module alone

from collections.abc import Iterator

from django.db import connection

from portal.billing.rules.differences import Difference

_MINOR = "power(10::numeric, %(digits)s)"

# What each refund and each of Stripe's lines must have left in the ledger, by the key of its transaction.
_REFUND_STEPS = f"""
    SELECT refund.public_id, step.kind, step.is_due, refund.amount_minor * {_MINOR} AS nano
    FROM billing_refund refund CROSS JOIN LATERAL (VALUES
        ('refund_reserved', true),
        ('refund_sent', refund.is_sent),
        ('refund_returned', refund.is_returned),
        ('refund_failed', refund.state IN ('failed', 'canceled'))
    ) AS step (kind, is_due)
"""
_POSTED = """
    SELECT tx.idempotency_key, sum(part.amount) AS nano
    FROM billing_ledgertx tx JOIN billing_ledgertransfer part ON part.tx_id = tx.id
    WHERE tx.kind = ANY(ARRAY['refund_reserved', 'refund_sent', 'refund_returned', 'refund_failed',
        'dispute_out', 'dispute_back', 'dispute_fee'])
    GROUP BY tx.idempotency_key
"""

_CHECKS = {
    "refund_differs_from_ledger": f"""
        SELECT steps.public_id || ' ' || steps.kind,
            CASE WHEN steps.is_due THEN steps.nano ELSE 0 END::bigint::text, coalesce(posted.nano, 0)::text
        FROM ({_REFUND_STEPS}) steps
        LEFT JOIN ({_POSTED}) posted ON posted.idempotency_key = steps.kind || ':' || steps.public_id
        WHERE CASE WHEN steps.is_due THEN steps.nano ELSE 0 END <> coalesce(posted.nano, 0)
    """,
    "refund_clearing_differs": f"""
        SELECT account.code, coalesce(aside.nano, 0)::bigint::text, (account.credits - account.debits)::text
        FROM billing_ledgeraccount account LEFT JOIN (
            SELECT organization.public_id AS owner, sum(refund.amount_minor) * {_MINOR} AS nano
            FROM billing_refund refund
            JOIN accounts_organization organization ON organization.id = refund.organization_id
            WHERE NOT refund.is_sent AND refund.state NOT IN ('failed', 'canceled') GROUP BY 1
        ) aside ON aside.owner = account.owner
        WHERE account.kind = 'refund_clearing' AND account.credits - account.debits <> coalesce(aside.nano, 0)
    """,
    "refunded_more_than_paid": """
        SELECT topup.public_id, '<= ' || (topup.amount_minor + topup.tax_minor), sum(refund.amount_minor)::text
        FROM billing_refund refund JOIN billing_topup topup ON topup.id = refund.topup_id
        WHERE refund.is_sent AND NOT refund.is_returned
        GROUP BY topup.id HAVING sum(refund.amount_minor) > topup.amount_minor + topup.tax_minor
    """,
    "dispute_differs_from_ledger": f"""
        SELECT line.movement || ' ' || step.kind, (step.minor * {_MINOR})::bigint::text, coalesce(posted.nano, 0)::text
        FROM billing_disputemovement line CROSS JOIN LATERAL (VALUES
            ('dispute_out', greatest(0, -line.amount_minor)),
            ('dispute_back', greatest(0, line.amount_minor)),
            ('dispute_fee', abs(line.fee_minor))
        ) AS step (kind, minor)
        LEFT JOIN ({_POSTED}) posted ON posted.idempotency_key = step.kind || ':' || line.movement
        WHERE step.minor * {_MINOR} <> coalesce(posted.nano, 0)
    """,
    "spending_stop_differs": """
        SELECT organization.public_id, coalesce(stop.kind, 'may spend'), organization.stopped_for
        FROM accounts_organization organization LEFT JOIN LATERAL (
            SELECT kind FROM billing_spendingstop WHERE organization_id = organization.id AND lifted_at IS NULL
            ORDER BY created_at DESC, id DESC LIMIT 1
        ) stop ON true
        WHERE organization.stopped_for <> coalesce(stop.kind, '')
    """,
}


def found(*, digits: int) -> Iterator[Difference]:
    """Yield every difference; a minor unit of the pool's currency is ten to the power of `digits` nano units."""
    for code, query in _CHECKS.items():
        with connection.cursor() as cursor:
            cursor.execute(query, {"digits": digits})
            for subject, expected, actual in cursor.fetchall():
                yield Difference(code, str(subject), str(expected), str(actual))
