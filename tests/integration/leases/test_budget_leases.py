"""A key's month is leased like credit: never beyond its cap, across all spools."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.billing.lease_errors import LeaseClosed, LeaseOverdrawn, RecordsMissing
from portal.billing.models import BudgetLease, BudgetWindow, LeaseState
from portal.billing.rules import leasing
from portal.billing.rules.leasing import Ask
from portal.billing.services import budgets, posting
from portal.metering.services import spools
from tests.factories import metering
from tests.factories.billing import DELIVERED, Market, budget_of

pytestmark = pytest.mark.django_db

HOLD = 1_000_000


def _market(cap: int) -> Market:
    market = Market(lease_nano=100 * HOLD)
    market.key.budget_cap_nano = cap
    market.key.save()
    return market


def _grant(market: Market, wanted: int, *, minimum: int | None = None, spool=None, now=DELIVERED):
    return budgets.grant(
        terms=budget_of(market.key),
        spool_id=(spool or market.spool).pk,
        ask=Ask(wanted_nano=wanted, minimum_nano=minimum or wanted),
        window_at=now,
        now=now,
    )


def test_a_grant_is_bounded_by_the_cap_over_all_spools():
    market = _market(10 * HOLD)

    first = _grant(market, 7 * HOLD, minimum=HOLD)
    second = _grant(market, 7 * HOLD, minimum=HOLD, spool=metering.spool())
    third = _grant(market, HOLD, spool=metering.spool())

    assert (first.granted, second.granted) == (7 * HOLD, 3 * HOLD)
    assert third.lease_id is None
    assert (third.cap_nano, third.used_nano, third.leased_nano) == (10 * HOLD, 0, 10 * HOLD)
    assert third.resets_at == datetime(2026, 12, 1, tzinfo=UTC)


def test_the_next_month_begins_with_the_whole_cap():
    market = _market(10 * HOLD)
    _grant(market, 10 * HOLD)

    december = _grant(market, 10 * HOLD, now=datetime(2026, 12, 1, tzinfo=UTC))

    assert december.granted == 10 * HOLD
    assert BudgetWindow.objects.count() == 2


def test_a_raised_cap_counts_at_once_and_a_lowered_one_lends_nothing_more():
    market = _market(10 * HOLD)
    _grant(market, 10 * HOLD)

    market.key.budget_cap_nano = 12 * HOLD
    market.key.save()
    raised = _grant(market, 5 * HOLD, minimum=HOLD, spool=metering.spool())
    market.key.budget_cap_nano = HOLD
    market.key.save()
    lowered = _grant(market, HOLD, spool=metering.spool())

    assert raised.granted == 2 * HOLD
    assert lowered.lease_id is None


def test_posted_usage_moves_from_leased_to_used():
    market = _market(10 * HOLD)
    granted = _grant(market, 5 * HOLD)
    market.serve(charge_nano=2 * HOLD, budget_lease_ids=[granted.lease_id])

    posting.post_usage(now=DELIVERED, limit=10)

    window, lease = BudgetWindow.objects.get(), BudgetLease.objects.get()
    assert (window.used_nano, window.leased_nano) == (2 * HOLD, 3 * HOLD)
    assert (lease.granted, lease.used) == (5 * HOLD, 2 * HOLD)


def test_what_is_idle_returns_and_the_rest_waits_for_posting():
    market = _market(10 * HOLD)
    granted = _grant(market, 5 * HOLD)
    market.serve(charge_nano=2 * HOLD, budget_lease_ids=[granted.lease_id])

    budgets.LIFE.shrink(lease_id=granted.lease_id, keep_nano=3 * HOLD)
    with pytest.raises(RecordsMissing):
        budgets.LIFE.finish(lease_id=granted.lease_id, last_seq=2, now=DELIVERED)
    is_closed = budgets.LIFE.finish(lease_id=granted.lease_id, last_seq=1, now=DELIVERED)

    window = BudgetWindow.objects.get()
    assert not is_closed
    assert (window.used_nano, window.leased_nano) == (0, 2 * HOLD)

    posting.post_usage(now=DELIVERED, limit=10)
    assert budgets.LIFE.finish_closing(now=DELIVERED) == 1
    window.refresh_from_db()
    assert (window.used_nano, window.leased_nano) == (2 * HOLD, 0)


def test_a_drained_spool_returns_its_budgets():
    market = _market(10 * HOLD)
    _grant(market, 5 * HOLD)
    spools.mark_drained(public_id=market.spool.public_id, now=DELIVERED)

    assert budgets.LIFE.finish_spool(spool_id=market.spool.pk, now=DELIVERED) == 0

    assert BudgetLease.objects.get().state == LeaseState.CLOSED
    assert BudgetWindow.objects.get().leased_nano == 0


def test_a_charge_beyond_the_lease_or_after_its_end_is_refused():
    market = _market(10 * HOLD)
    granted = _grant(market, HOLD)

    with pytest.raises(LeaseOverdrawn):
        budgets.LIFE.charge(lease_id=granted.lease_id, charge_nano=HOLD + 1)
    budgets.LIFE.finish(lease_id=granted.lease_id, last_seq=0, now=DELIVERED)
    with pytest.raises(LeaseClosed):
        budgets.LIFE.charge(lease_id=granted.lease_id, charge_nano=1)

    window = BudgetWindow.objects.get()
    assert (window.used_nano, window.leased_nano) == (0, 0)


def test_renewing_begins_a_new_term_and_fencing_ends_it():
    market = _market(10 * HOLD)
    granted = _grant(market, HOLD)
    later = DELIVERED + timedelta(minutes=10)

    renewed = budgets.LIFE.renew(lease_ids=[granted.lease_id], now=later)
    fenced = budgets.LIFE.begin_closing_expired(now=later + leasing.TERM)

    assert granted.expires_at == DELIVERED + leasing.TERM
    assert renewed == {granted.lease_id: later + leasing.TERM}
    assert fenced == [granted.lease_id]
    assert budgets.LIFE.renew(lease_ids=fenced, now=later) == {}


def test_a_late_call_still_takes_from_the_month_it_is_for():
    market = _market(10 * HOLD)

    late = budgets.grant(
        terms=budget_of(market.key),
        spool_id=market.spool.pk,
        ask=Ask(HOLD, HOLD),
        window_at=datetime(2026, 11, 30, 23, 59, 59, tzinfo=UTC),
        now=datetime(2026, 12, 1, 0, 0, 1, tzinfo=UTC),
    )

    assert late.resets_at == datetime(2026, 12, 1, tzinfo=UTC)
    assert BudgetWindow.objects.get().leased_nano == HOLD
