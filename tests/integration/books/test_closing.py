"""A closed month: its balances, its digest, and that nothing takes effect in it any more; trial balances too."""

import hashlib
import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import PeriodNotOver
from portal.billing.models import ClosedPeriod, LedgerTransfer, LedgerTx, PeriodBalance
from portal.billing.rules import periods
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import ledger_accounts, sums
from portal.billing.services import closing, ledger, reconcile
from portal.core.money import NANO_PER_UNIT
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import buy
from tests.integration.billing.test_differences import tamper

pytestmark = pytest.mark.django_db
OCTOBER = periods.month_of(datetime(2026, 10, 5, tzinfo=UTC))
NOVEMBER = periods.month_of(datetime(2026, 11, 5, tzinfo=UTC))
AFTER = NOVEMBER.ends_at + periods.CLOSING_DELAY


@pytest.fixture
def customer():
    """A customer who bought in October, in the last microsecond of it, and in November's first."""
    organization = OrganizationFactory()
    last = OCTOBER.ends_at - timedelta(microseconds=1)
    for key, at in enumerate((OCTOBER.starts_at, last, OCTOBER.ends_at), start=1):
        buy(organization, amount=key * NANO_PER_UNIT, now=at, key=str(key))
    return organization


def credit_at(organization, at):
    return next(row.balance_nano for row in sums.sums_at(at=at) if row.owner == organization.public_id)


def test_a_month_ends_in_its_last_microsecond(customer):
    assert credit_at(customer, OCTOBER.ends_at - timedelta(microseconds=1)) == 1 * NANO_PER_UNIT
    assert credit_at(customer, OCTOBER.ends_at) == 3 * NANO_PER_UNIT
    assert credit_at(customer, NOVEMBER.ends_at) == 6 * NANO_PER_UNIT


def test_a_close_keeps_every_balance_and_the_trial_balance_builds_on_it(customer):
    closed = closing.close_period(period=OCTOBER, now=OCTOBER.ends_at + periods.CLOSING_DELAY)

    kept = dict(PeriodBalance.objects.filter(period=closed).values_list("account__code", "credits"))
    assert kept == {"stripe_balance": 0, f"customer_credit:{customer.public_id}": 3 * NANO_PER_UNIT}
    for at in (OCTOBER.starts_at, OCTOBER.ends_at, NOVEMBER.starts_at + timedelta(seconds=1), NOVEMBER.ends_at):
        assert sums.sums_at(at=at) == sums.sums_at(at=at, is_whole=True)
        kinds = ledger_accounts.summed_by_kind(sums.sums_at(at=at))
        assert sum(row.debit_nano for row in kinds) == sum(row.credit_nano for row in kinds)


def test_the_digest_is_over_the_balances_and_the_month_before(customer):
    first = closing.close_period(period=OCTOBER, now=AFTER)
    second = closing.close_period(period=NOVEMBER, now=AFTER)

    code, six = f"customer_credit:{customer.public_id}", str(6 * NANO_PER_UNIT)
    plain = {
        "period": "2026-11",
        "previous": first.sha256,
        "balances": [[code, "usd", "0", six], ["stripe_balance", "usd", six, "0"]],
    }
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    assert (second.previous_sha256, second.sha256) == (first.sha256, hashlib.sha256(text.encode()).hexdigest())
    assert closing.close_period(period=NOVEMBER, now=AFTER).pk == second.pk


def test_a_month_that_may_still_get_usage_is_not_closed(customer):
    with pytest.raises(PeriodNotOver):
        closing.close_period(period=NOVEMBER, now=AFTER - timedelta(seconds=1))

    assert not ClosedPeriod.objects.exists()


def test_what_comes_late_takes_effect_in_the_open_month(customer):
    closing.close_period(period=OCTOBER, now=NOVEMBER.starts_at + periods.CLOSING_DELAY)
    now = NOVEMBER.starts_at + timedelta(days=3)
    parts = [ledger.account(Kind.STRIPE_BALANCE, currency="usd"), ledger.account(Kind.OWNER_EQUITY, currency="usd")]

    tx = ledger.post(
        kind="owner_deposit",
        key="late",
        source_type="test",
        source_id="1",
        transfers=[ledger.Transfer(*parts, 5)],
        actor=SYSTEM_ACTOR,
        now=now,
        effective_at=OCTOBER.ends_at - timedelta(seconds=1),
    )

    assert tx.effective_at == now
    assert LedgerTransfer.objects.get(tx=tx).effective_at == now


def test_the_database_itself_refuses_a_closed_month(customer):
    closing.close_period(period=OCTOBER, now=AFTER)

    with pytest.raises(IntegrityError, match="is closed"), transaction.atomic():
        LedgerTx.objects.create(
            kind="x",
            idempotency_key="x",
            content_hash="",
            source_type="x",
            source_id="x",
            effective_at=OCTOBER.ends_at - timedelta(seconds=1),
            created_at=AFTER,
            actor="x",
        )

    assert not LedgerTx.objects.filter(idempotency_key="x").exists()


@pytest.mark.parametrize(
    "statement", ["DELETE FROM billing_closedperiod", "UPDATE billing_periodbalance SET debits = 0"]
)
def test_a_closed_month_cannot_be_opened_or_changed(customer, statement):
    closing.close_period(period=OCTOBER, now=AFTER)

    with pytest.raises(IntegrityError, match="append-only"), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert ClosedPeriod.objects.count() == 1


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            "UPDATE billing_periodbalance SET credits = credits + 1 WHERE credits > 0",
            {"period_changed", "period_balance_differs"},
        ),
        ("UPDATE billing_closedperiod SET sha256 = 'x'", {"period_changed"}),
        (
            "UPDATE billing_ledgertransfer SET effective_at = '2026-10-09' WHERE effective_at = '2026-11-01'",
            {"period_balance_differs", "ledger_time_differs"},
        ),
    ],
)
def test_a_tampered_close_is_found(customer, statement, found):
    closing.close_period(period=OCTOBER, now=AFTER)
    tamper(statement)

    codes = {one.code for one in reconcile.differences(now=AFTER)}

    assert codes - {"ledger_owner_missing"} == found


def test_files_of_a_month(world, customer):
    closing.close_period(period=OCTOBER, now=AFTER)
    browser = world.client(world.operator)

    journal = b"".join(browser.get("/operator/ledger/months/2026-10/journal.csv").streaming_content).decode()
    balances = b"".join(browser.get("/operator/ledger/months/2026-10/balances.csv").streaming_content).decode()

    lines = [line.split(",") for line in journal.splitlines()]
    assert [line[9] for line in lines[1:]] == ["1", "2"]
    assert lines[1][1] == "2026-10-01T00:00:00+00:00"
    assert balances.splitlines()[1] == f"customer_credit:{customer.public_id},usd,0,3"
    assert browser.get("/operator/ledger/months/2026-11/balances.csv").status_code == 404
    assert browser.get("/operator/ledger/months/nonsense/journal.csv").status_code == 404
