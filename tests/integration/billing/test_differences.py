"""Every comparison of `ledger_check` finds what it is for; each tampering is found by exactly its own."""

from datetime import timedelta

import pytest
from django.db import connection

from portal.billing.rules.leasing import Ask
from portal.billing.selectors import differences
from portal.billing.services import budgets, maturity, posting, reconcile
from tests.factories.billing import DELIVERED, Market, budget_of

pytestmark = pytest.mark.django_db
LATER = DELIVERED + timedelta(minutes=1)


@pytest.fixture
def market(settings):
    """A market with posted, matured and pending usage, and a budget."""
    settings.PAYOUT_HOLD_DAYS = 0
    made = Market()
    made.key.budget_cap_nano = 5_000_000_000
    made.key.save()
    budget = budgets.grant(
        terms=budget_of(made.key),
        window_at=DELIVERED,
        spool_id=made.spool.pk,
        ask=Ask(wanted_nano=1_000_000, minimum_nano=1),
        now=DELIVERED,
    )
    made.serve()
    posting.post_usage(now=LATER)
    maturity.mature(now=LATER)
    made.serve(budget_lease_ids=[budget.lease_id])
    posting.post_usage(now=LATER)
    assert found() == set()
    return made


def found(now=LATER):
    return {each.code for each in reconcile.differences(now=now)}


def tamper(statement):
    """Do what the database would refuse: with triggers and foreign keys off."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = 'replica'")
        cursor.execute(statement)
        assert cursor.rowcount > 0
        cursor.execute("SET LOCAL session_replication_role = 'origin'")


@pytest.mark.parametrize(
    ("statement", "codes"),
    [
        (
            "UPDATE billing_ledgeraccount SET credits = credits + 1, debits = debits + 1 WHERE owner LIKE 'org%'",
            {"ledger_totals"},
        ),
        (
            (
                "UPDATE billing_ledgertransfer SET amount = amount + 5 FROM billing_ledgertx tx"
                " WHERE tx.id = tx_id AND tx.kind = 'maturity'"
            ),
            {"ledger_totals", "matured_differs_from_ledger", "pending_differs_from_maturities"},
        ),
        (
            (
                "DELETE FROM billing_ledgertransfer part USING billing_ledgertx tx"
                " WHERE tx.id = part.tx_id AND tx.kind = 'topup'"
            ),
            {"ledger_empty_transaction", "ledger_totals", "ledger_floor"},
        ),
        ("UPDATE billing_creditlease SET granted = granted + 1", {"ledger_held"}),
        ("UPDATE billing_budgetwindow SET leased_nano = leased_nano + 1", {"budget_window_leased"}),
        (
            "UPDATE billing_ledgeraccount SET owner = 'org_gone' WHERE kind = 'customer_credit'",
            {"ledger_owner_missing"},
        ),
        (
            "DELETE FROM billing_usageposting WHERE id = (SELECT min(id) FROM billing_usageposting)",
            {"usage_not_posted", "posting_differs_from_ledger", "spend_day_differs", "earning_day_differs"},
        ),
        (
            "UPDATE billing_usageposting SET charge_nano = charge_nano + 1",
            {"posting_differs_from_usage", "posting_differs_from_ledger", "spend_day_differs"},
        ),
        (
            (
                "UPDATE metering_usagerecord SET charge_nano = charge_nano + 1, platform_nano = platform_nano + 1,"
                " hold_nano = hold_nano + 1, lease_charges[1] = lease_charges[1] + 1"
            ),
            {"posting_differs_from_usage", "charge_differs_from_price"},
        ),
        (
            "UPDATE metering_usagerecord SET prompt_tokens = prompt_tokens - 1, hold_nano = 10000000",
            {"charge_differs_from_price"},
        ),
        ("UPDATE metering_usagerecord SET share_bps = 7999", {"charge_differs_from_price"}),
        ("DELETE FROM billing_priceversion", {"charge_differs_from_price", "usage_names_nothing"}),
        ("UPDATE metering_usagerecord SET lease_ids[1] = 987654", {"usage_names_nothing"}),
        (
            "UPDATE metering_usagerecord SET budget_lease_ids = ARRAY[987654], budget_charges = ARRAY[1]",
            {"usage_names_nothing", "budget_window_used"},
        ),
        ("UPDATE billing_budgetwindow SET used_nano = used_nano - 1", {"budget_window_used"}),
        ("UPDATE billing_spendday SET charge_nano = charge_nano - 1", {"spend_day_differs"}),
        ("DELETE FROM billing_spendday", {"spend_day_differs"}),
        ("UPDATE billing_earningday SET earned_nano = earned_nano - 1", {"earning_day_differs"}),
        (
            "DELETE FROM billing_earningmaturity WHERE matured_tx_id IS NULL",
            {"earning_without_maturity", "pending_differs_from_maturities"},
        ),
        (
            "UPDATE billing_earningmaturity SET matured_tx_id = NULL",
            {"pending_differs_from_maturities"},
        ),
    ],
)
def test_tampering_is_found(market, statement, codes):
    tamper(statement)

    assert found() == codes


def test_a_trial_balance_is_of_both_sides(market):
    tamper("UPDATE billing_ledgertransfer SET debit_account_id = 987654 WHERE seq = 0")

    assert "ledger_trial_balance" in found()


def test_usage_that_waits_for_too_long_is_found(market):
    market.serve()

    assert found(now=DELIVERED + differences.POSTED_WITHIN) == set()
    assert found(now=DELIVERED + differences.POSTED_WITHIN + timedelta(seconds=1)) == {"usage_waits"}


def test_a_difference_says_what_was_expected(market):
    tamper("UPDATE billing_spendday SET charge_nano = charge_nano - 1")

    (difference,) = reconcile.differences(now=LATER)

    assert difference.subject == f"organization {market.customer.pk}"
    assert (difference.expected, difference.actual) == ("1200000", "1199999")
