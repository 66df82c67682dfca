"""Old usage is dropped by the day, once nothing is left to do with it, and no sum changes by it."""

from datetime import UTC, date, datetime, timedelta

import psycopg
import pytest
from django.db import connection

from portal.billing.models import ArchivedUsage, BudgetWindow, SpendDay, Statement
from portal.billing.rules.leasing import Ask
from portal.billing.services import budgets, maturity, posting, recompute, reconcile, retention, statements
from portal.core.errors import NotFound
from portal.metering.errors import UsageStillNeeded, UsageTooOld
from portal.metering.models import DroppedDay, UsageRecord
from portal.metering.services import hours, ingest, partitions
from portal.trust.services import token_audits
from tests.factories import metering as make
from tests.factories.billing import Market, budget_of

pytestmark = pytest.mark.django_db

SERVED = datetime(2026, 11, 2, 12, tzinfo=UTC)
DAY = SERVED.date()
LATER = datetime(2027, 12, 20, tzinfo=UTC)


@pytest.fixture
def market() -> Market:
    """Two requests, served on a day that has a partition of its own."""
    partitions.ensure(today=DAY, days=2)
    market = Market()
    for _ in range(2):
        market.serve(opened_at=SERVED, closed_at=SERVED + timedelta(seconds=2))
    return market


def _finish() -> None:
    """Read, book, mature and state what was served."""
    posting.post_all(now=SERVED + timedelta(minutes=1))
    hours.add_all()
    token_audits.audit_usage(now=SERVED)
    maturity.mature(now=LATER)
    statements.freeze_month(now=datetime(2026, 12, 5, tzinfo=UTC))


def test_a_finished_day_goes_and_its_sums_stay(market):
    _finish()
    charged = SpendDay.objects.get().charge_nano

    dropped = retention.drop_before(day=date(2027, 1, 1), now=LATER)

    assert DAY in dropped
    assert not UsageRecord.objects.filter(opened_on=DAY).exists()
    assert DroppedDay.objects.get(day=DAY).records == 2
    kept = ArchivedUsage.objects.get()
    assert (kept.organization_id, kept.provider_id) == (market.customer.pk, market.provider.pk)
    assert (kept.records, kept.charge_nano) == (2, charged)
    assert SpendDay.objects.get().charge_nano == charged
    assert reconcile.differences(now=LATER) == []


def test_a_lifetime_budget_keeps_what_was_spent_on_days_that_are_gone(market):
    market.key.budget_cap_nano, market.key.budget_period = 10**9, "lifetime"
    market.key.save()
    lease = budgets.grant(
        terms=budget_of(market.key),
        window_at=SERVED,
        spool_id=market.spool.pk,
        ask=Ask(wanted_nano=10**9, minimum_nano=1),
        now=SERVED,
    )
    charge = market.serve(opened_at=SERVED, closed_at=SERVED, budget_lease_ids=[lease.lease_id]).charge_nano
    _finish()

    retention.drop_day(day=DAY, now=LATER)

    window = BudgetWindow.objects.get()
    assert (window.used_nano, window.archived_nano) == (charge, charge)
    assert reconcile.differences(now=LATER) == []


def test_an_archive_that_was_touched_is_a_difference(market):
    _finish()
    retention.drop_day(day=DAY, now=LATER)
    ArchivedUsage.objects.update(charge_nano=1)

    codes = {found.code for found in reconcile.differences(now=LATER)}

    assert codes == {"archive_differs_from_postings", "spend_day_differs"}


@pytest.mark.parametrize("missing", ["read", "book", "mature", "state"])
def test_a_day_that_somebody_needs_stays(market, missing):
    if missing != "book":
        posting.post_all(now=SERVED + timedelta(minutes=1))
        token_audits.audit_usage(now=SERVED)
    if missing != "read":
        hours.add_all()
    if missing not in {"mature", "book"}:
        maturity.mature(now=LATER)
    if missing != "state":
        statements.freeze_month(now=datetime(2026, 12, 5, tzinfo=UTC))

    with pytest.raises(UsageStillNeeded):
        retention.drop_day(day=DAY, now=LATER)

    assert UsageRecord.objects.filter(opened_on=DAY).count() == 2
    assert not DroppedDay.objects.exists()
    assert DAY not in retention.drop_before(day=date(2027, 1, 1), now=LATER)


@pytest.mark.django_db(transaction=True)
def test_a_day_that_somebody_reads_waits_for_tomorrow_and_holds_nobody_up(market):
    _finish()
    given = connection.get_connection_params()
    address = {name: given[name] for name in ("dbname", "user", "host", "port") if name in given}
    with psycopg.connect(**address) as reader:
        reader.execute("SELECT count(*) FROM metering_usagerecord")

        with pytest.raises(UsageStillNeeded, match="being read"):
            retention.drop_day(day=DAY, now=LATER)

    assert UsageRecord.objects.filter(opened_on=DAY).count() == 2
    retention.drop_day(day=DAY, now=LATER)
    assert not UsageRecord.objects.filter(opened_on=DAY).exists()


def test_a_late_record_of_a_dropped_day_is_refused_and_not_charged_again(market):
    _finish()
    retention.drop_day(day=DAY, now=LATER)
    row = make.usage_row(opened_at=SERVED, spool_id=market.spool.public_id, spool_seq=99)

    with pytest.raises(UsageTooOld):
        ingest.ingest(spool=market.spool.public_id, rows=[row], now=LATER)

    assert not UsageRecord.objects.filter(opened_on=DAY).exists()


def test_a_statement_whose_records_are_gone_says_so(market):
    _finish()
    number = Statement.objects.earliest("id").number
    assert recompute.statement(number=number).is_right
    retention.drop_day(day=DAY, now=LATER)

    with pytest.raises(NotFound, match="stands as it was frozen"):
        recompute.statement(number=number)


@pytest.mark.parametrize(("days", "first"), [(400, date(2026, 11, 15)), (0, None)])
def test_the_first_day_that_is_kept(days, first):
    assert retention.horizon(now=LATER, days=days) == first
