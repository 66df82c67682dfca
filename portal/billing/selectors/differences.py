"""Everything that must equal something else, as queries that return only what does not.

Each query returns (subject, expected, actual). They read one snapshot, so a running system shows no false difference.
"""

# ruff: noqa: S608  the queries are composed of constants alone

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import connection

from portal.billing.rules.differences import Difference
from portal.billing.selectors import credit_differences, earning_differences, price_checks
from portal.billing.selectors.account_sums import SUMS


@dataclass(frozen=True, slots=True)
class Check:
    """One comparison: its stable code and the query that finds what breaks it."""

    code: str
    sql: str


_HELD = """
    SELECT account_id AS id, sum(granted - used) AS held FROM billing_creditlease WHERE state <> 'closed' GROUP BY 1
"""
_USAGE_KEY = (
    "usage.opened_on = posting.opened_on AND usage.request_id = posting.request_id AND usage.attempt = posting.attempt"
)
_NAME = "usage.request_id || '/' || usage.attempt"
# What is booked, by customer and provider: from the records, and from the archive where these were dropped.
_POSTED = f"""
    SELECT usage.organization_id, usage.provider_id, posting.charge_nano AS charge, posting.provider_nano AS earned
    FROM billing_usageposting posting JOIN metering_usagerecord usage ON {_USAGE_KEY}
    UNION ALL SELECT organization_id, provider_id, charge_nano, earned_nano FROM billing_archivedusage
"""

POSTED_WITHIN = timedelta(hours=1)
_WAITING = """
    SELECT count(*), min(usage.closed_at) FROM metering_usagequeue queue
    JOIN metering_usagerecord usage USING (opened_on, request_id, attempt)
    WHERE queue.reader = 'billing' AND usage.closed_at < %s
"""

LEDGER = (
    Check(
        "ledger_trial_balance",
        f"""
        SELECT account.currency, '0', sum(sums.debits - sums.credits)::text
        FROM ({SUMS}) sums JOIN billing_ledgeraccount account USING (id)
        GROUP BY account.currency HAVING sum(sums.debits - sums.credits) <> 0
        """,
    ),
    Check(
        "ledger_totals",
        f"""
        SELECT account.code, sums.debits || '/' || sums.credits, account.debits || '/' || account.credits
        FROM ({SUMS}) sums JOIN billing_ledgeraccount account USING (id)
        WHERE account.keeps_totals AND (account.debits <> sums.debits OR account.credits <> sums.credits)
        """,
    ),
    Check(
        "ledger_floor",
        f"""
        SELECT account.code, '>= ' || account.held,
            (CASE WHEN account.is_debit_normal THEN debits - credits ELSE credits - debits END)::text
        FROM (SELECT account.*, sums.debits AS summed_debits, sums.credits AS summed_credits
            FROM ({SUMS}) sums JOIN billing_ledgeraccount account USING (id)) account
        WHERE account.has_floor AND account.held >
            CASE WHEN is_debit_normal THEN summed_debits - summed_credits ELSE summed_credits - summed_debits END
        """,
    ),
    Check(
        "ledger_held",
        f"""
        SELECT account.code, coalesce(leases.held, 0)::text, account.held::text
        FROM billing_ledgeraccount account LEFT JOIN ({_HELD}) leases USING (id)
        WHERE account.held <> coalesce(leases.held, 0)
        """,
    ),
    Check(
        "ledger_empty_transaction",
        """
        SELECT tx.idempotency_key, 'transfers', 'none' FROM billing_ledgertx tx
        WHERE NOT EXISTS (SELECT 1 FROM billing_ledgertransfer part WHERE part.tx_id = tx.id)
        """,
    ),
    Check(
        "ledger_time_differs",
        """
        SELECT tx.idempotency_key, tx.effective_at::text, part.effective_at::text
        FROM billing_ledgertransfer part JOIN billing_ledgertx tx ON tx.id = part.tx_id
        WHERE part.effective_at <> tx.effective_at
        """,
    ),
    Check(
        "ledger_owner_missing",
        """
        SELECT account.code, 'an owner that exists', account.owner FROM billing_ledgeraccount account
        WHERE account.owner <> ''
            AND NOT EXISTS (SELECT 1 FROM accounts_organization WHERE public_id = account.owner)
            AND NOT EXISTS (SELECT 1 FROM providers_provider WHERE public_id = account.owner)
        """,
    ),
)

USAGE = (
    Check(
        "usage_not_posted",
        f"""
        SELECT {_NAME}, usage.charge_nano::text, 'neither posted nor queued'
        FROM metering_usagerecord usage
        WHERE usage.charge_nano > 0
            AND NOT EXISTS (SELECT 1 FROM billing_usageposting posting WHERE {_USAGE_KEY})
            AND NOT EXISTS (SELECT 1 FROM metering_usagequeue queue WHERE queue.reader = 'billing'
                AND queue.opened_on = usage.opened_on AND queue.request_id = usage.request_id
                AND queue.attempt = usage.attempt)
        """,
    ),
    Check(
        "usage_unpostable",
        """
        SELECT usage.request_id || '/' || usage.attempt, 'posted', usage.code FROM billing_unpostableusage usage
        """,
    ),
    Check(
        "usage_refused",
        """
        SELECT spool.public_id || '/' || refused.spool_seq, 'stored', refused.code
        FROM metering_refusedusage refused JOIN metering_spool spool ON spool.id = refused.spool_id
        """,
    ),
    Check(
        "posting_differs_from_usage",
        f"""
        SELECT posting.request_id || '/' || posting.attempt,
            coalesce(usage.charge_nano || '/' || usage.provider_nano, 'no usage record'),
            posting.charge_nano || '/' || posting.provider_nano
        FROM billing_usageposting posting LEFT JOIN metering_usagerecord usage ON {_USAGE_KEY}
        WHERE (usage.request_id IS NULL OR usage.charge_nano <> posting.charge_nano
            OR posting.provider_nano <> CASE WHEN posting.withheld = '' THEN usage.provider_nano ELSE 0 END)
            AND posting.opened_on NOT IN (SELECT day FROM metering_droppedday)
        """,
    ),
    Check(
        "posting_differs_from_ledger",
        """
        SELECT tx.idempotency_key, coalesce(posted.charge, 0) || '/' || coalesce(posted.earned, 0),
            moved.charge || '/' || moved.earned
        FROM billing_ledgertx tx
        CROSS JOIN LATERAL (
            SELECT sum(part.amount) AS charge,
                coalesce(sum(part.amount) FILTER (WHERE account.kind IN ('provider_pending', 'provider_held')), 0)
                    AS earned
            FROM billing_ledgertransfer part JOIN billing_ledgeraccount account ON account.id = part.credit_account_id
            WHERE part.tx_id = tx.id
        ) moved
        LEFT JOIN LATERAL (
            SELECT sum(charge_nano) AS charge, sum(provider_nano) AS earned
            FROM billing_usageposting posting WHERE posting.tx_id = tx.id
        ) posted ON true
        WHERE tx.kind = 'usage'
            AND (moved.charge IS DISTINCT FROM posted.charge OR moved.earned IS DISTINCT FROM posted.earned)
        """,
    ),
    Check(
        "charge_differs_from_price",
        f"""
        SELECT {_NAME}, coalesce(least(rated.charge, usage.hold_nano)::text, 'no price version'),
            usage.charge_nano || '/' || usage.provider_nano
        FROM metering_usagerecord usage
        LEFT JOIN billing_priceversion price ON price.id = usage.price_version_id
        LEFT JOIN LATERAL (
            SELECT price.request_nano + div(
                (usage.prompt_tokens - usage.cached_tokens)::numeric * price.prompt_nano_per_mtok
                + usage.cached_tokens::numeric * price.cached_nano_per_mtok
                + usage.completion_tokens::numeric * price.completion_nano_per_mtok + 500000, 1000000) AS charge
        ) rated ON true
        WHERE usage.charge_nano > 0 AND (
            price.id IS NULL OR usage.charge_nano <> least(rated.charge, usage.hold_nano)
            OR usage.provider_nano <> div(usage.charge_nano::numeric * usage.share_bps, 10000))
        """,
    ),
    Check(
        "usage_names_nothing",
        f"""
        SELECT {_NAME}, 'rows that exist', concat_ws(', ',
            'lease ' || credit.missing, 'budget lease ' || budget.missing,
            CASE WHEN price.id IS NULL THEN 'price version ' || usage.price_version_id END)
        FROM metering_usagerecord usage
        LEFT JOIN billing_priceversion price ON price.id = usage.price_version_id
        CROSS JOIN LATERAL (SELECT string_agg(named::text, '/') AS missing FROM unnest(usage.lease_ids) named
            WHERE NOT EXISTS (SELECT 1 FROM billing_creditlease lease WHERE lease.id = named)) credit
        CROSS JOIN LATERAL (SELECT string_agg(named::text, '/') AS missing FROM unnest(usage.budget_lease_ids) named
            WHERE NOT EXISTS (SELECT 1 FROM billing_budgetlease lease WHERE lease.id = named)) budget
        WHERE price.id IS NULL OR credit.missing IS NOT NULL OR budget.missing IS NOT NULL
        """,
    ),
    Check(
        "archive_differs_from_postings",
        """
        SELECT dropped.day, concat_ws('/', posted.charge, posted.earned), concat_ws('/', kept.charge, kept.earned)
        FROM metering_droppedday dropped
        CROSS JOIN LATERAL (SELECT coalesce(sum(charge_nano), 0) AS charge, coalesce(sum(provider_nano), 0) AS earned
            FROM billing_usageposting WHERE opened_on = dropped.day) posted
        CROSS JOIN LATERAL (SELECT coalesce(sum(charge_nano), 0) AS charge, coalesce(sum(earned_nano), 0) AS earned
            FROM billing_archivedusage WHERE opened_on = dropped.day) kept
        WHERE (posted.charge, posted.earned) IS DISTINCT FROM (kept.charge, kept.earned)
        """,
    ),
    Check(
        "spend_day_differs",
        f"""
        SELECT 'organization ' || organization_id, posted.charge::text, coalesce(days.charge, 0)::text
        FROM (SELECT organization_id, sum(charge) AS charge FROM ({_POSTED}) each GROUP BY 1) posted
        FULL JOIN (SELECT organization_id, sum(charge_nano) AS charge FROM billing_spendday GROUP BY 1) days
            USING (organization_id)
        WHERE coalesce(posted.charge, 0) <> coalesce(days.charge, 0)
        """,
    ),
    Check(
        "earning_day_differs",
        f"""
        SELECT 'provider ' || provider_id, posted.earned::text, coalesce(days.earned, 0)::text
        FROM (SELECT provider_id, sum(earned) AS earned FROM ({_POSTED}) each GROUP BY 1) posted
        FULL JOIN (SELECT provider_id, sum(earned_nano) AS earned FROM billing_earningday GROUP BY 1) days
            USING (provider_id)
        WHERE coalesce(posted.earned, 0) <> coalesce(days.earned, 0)
        """,
    ),
)

BUDGETS = (
    Check(
        "budget_window_leased",
        """
        SELECT 'budget window ' || budget.id, coalesce(leases.leased, 0)::text, budget.leased_nano::text
        FROM billing_budgetwindow budget
        LEFT JOIN (SELECT window_id, sum(granted - used) AS leased FROM billing_budgetlease
            WHERE state <> 'closed' GROUP BY 1) leases ON leases.window_id = budget.id
        WHERE budget.leased_nano <> coalesce(leases.leased, 0)
        """,
    ),
    Check(
        "budget_window_used",
        f"""
        SELECT 'budget window ' || budget.id, (budget.archived_nano + coalesce(booked.used, 0))::text,
            budget.used_nano::text
        FROM billing_budgetwindow budget LEFT JOIN (
            SELECT lease.window_id, sum(part.nano) AS used
            FROM billing_usageposting posting JOIN metering_usagerecord usage ON {_USAGE_KEY}
            CROSS JOIN LATERAL unnest(usage.budget_lease_ids, usage.budget_charges) AS part (lease_id, nano)
            JOIN billing_budgetlease lease ON lease.id = part.lease_id GROUP BY 1
        ) booked ON booked.window_id = budget.id
        WHERE budget.used_nano <> budget.archived_nano + coalesce(booked.used, 0)
        """,
    ),
)


EARNINGS = tuple(Check(code, sql) for code, sql in earning_differences.QUERIES)
PRICES = tuple(Check(code, sql) for code, sql in price_checks.QUERIES)
CREDIT = tuple(Check(code, sql) for code, sql in credit_differences.QUERIES)


def found() -> Iterator[Difference]:
    """Yield every difference that the database holds."""
    for check in (*LEDGER, *USAGE, *EARNINGS, *BUDGETS, *PRICES, *CREDIT):
        with connection.cursor() as cursor:
            cursor.execute(check.sql)
            for subject, expected, actual in cursor.fetchall():
                yield Difference(check.code, str(subject), str(expected), str(actual))


def waiting(*, now: datetime) -> Iterator[Difference]:
    """Yield what keeps usage from being booked: records that wait although the poster had time enough."""
    with connection.cursor() as cursor:
        cursor.execute(_WAITING, [now - POSTED_WITHIN])
        count, oldest = cursor.fetchone()
    if count:
        yield Difference("usage_waits", f"{count} records", f"posted within {POSTED_WITHIN}", f"waiting since {oldest}")
