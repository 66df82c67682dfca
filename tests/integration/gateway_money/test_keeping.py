"""Leases are renewed while they are used, wound up when the database says so, and given up when nobody needs them."""

import time
from datetime import timedelta

import pytest

from portal.billing.models import BudgetLease, BudgetWindow, CreditLease, LeaseState
from portal.billing.rules import leasing, windows
from portal.billing.services import leases
from portal.core import clock
from portal.gateway.credit import BillingUnavailable
from portal.gateway.settlement import SpoolUnavailable
from portal.metering.services import spools
from tests.factories.billing import Market
from tests.factories.metering import ACTOR
from tests.integration.gateway_money.rig import Goods, Process, credit_account, run, running, until

pytestmark = pytest.mark.django_db(transaction=True)

HOLD = 1_000_000


@pytest.fixture
def goods() -> Goods:
    market = Market(lease_nano=0)
    market.key.budget_cap_nano = 1_000 * HOLD
    market.key.save()
    return Goods(market)


def _purses(process: Process):
    organization_id = process.goods.key.organization_id
    return process.credit._credit[organization_id], process.credit._budgets.all()[0]


async def _keep(process: Process) -> None:
    credit, budget = _purses(process)
    await process.credit._credit_keeper.keep([credit])
    await process.credit._budget_keeper.keep([budget])


def test_a_used_lease_is_renewed_before_its_last_third(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.place(HOLD)
            leased = [lease for purse in _purses(process) for lease in purse.pool]
            for lease in leased:
                lease.expires_at = time.time() + leasing.TERM.total_seconds() / 2
            await _keep(process)
            return [lease.expires_at - time.time() for lease in leased]

    assert all(left > leasing.TERM.total_seconds() - 60 for left in run(scenario))


def test_a_lease_that_was_fenced_in_the_database_is_only_wound_up(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            hold = await process.place(HOLD)
            (fenced,) = _purses(process)[0].pool
            fenced.expires_at = time.time() + 300
            await process.threads.run(leases.LIFE.begin_closing, lease_ids=[fenced.id])
            await _keep(process)
            other = await process.place(HOLD)
            process.credit.release(hold, 0)
            await _keep(process)
            return fenced, other, [lease.id for lease in _purses(process)[0].pool]

    fenced, other, left = run(scenario)

    assert fenced.is_closing
    ((lease_id, _),) = other.draws().credit
    assert lease_id != fenced.id
    assert left == [lease_id]
    assert CreditLease.objects.get(pk=fenced.id).state == LeaseState.CLOSED


def test_what_nobody_needs_is_returned_and_forgotten(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            process.credit.release(await process.place(HOLD), 0)
            for purse in _purses(process):
                purse.taken_at -= 1_000
            await until("the purses are gone", lambda: not process.credit._credit and not process.credit._budgets.all())
            return process.credit._budgets.of_owner(goods.key.public_id)

    assert run(scenario) == []
    assert set(CreditLease.objects.values_list("state", flat=True)) == {LeaseState.CLOSED}
    assert set(BudgetLease.objects.values_list("state", flat=True)) == {LeaseState.CLOSED}
    assert credit_account(goods.market).held == 0


def test_idle_credit_of_a_rich_organization_goes_back_after_ten_seconds(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.place(HOLD)
            credit, _ = _purses(process)
            before = credit.is_overdue, credit.pool.idle > 0
            credit.taken_at -= 11
            await _keep(process)
            return before, credit.pool.idle

    assert run(scenario) == ((False, True), 0)


def test_each_month_has_a_purse_of_its_own(goods, tmp_path):
    window = windows.window_of(period="month", zone="UTC", at=clock.now())
    next_month = window.ends_at + timedelta(hours=1)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            hold = await process.place(HOLD)
            again = await process.credit.place(key=goods.key, nano=HOLD, now=next_month)
            process.credit.release(hold, 10)
            return [drawn.purse.pool.held for drawn in (*hold.budgets, *again.budgets)]

    assert run(scenario) == [0, HOLD]
    assert BudgetWindow.objects.count() == 2


def test_nothing_is_lent_to_a_spool_that_is_drained_or_abandoned(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.spool.row_id(process.threads, now=clock.now())
            await process.threads.run(spools.mark_drained, public_id=process.spool.spool_id, now=clock.now())
            with pytest.raises(BillingUnavailable):
                await process.place(HOLD)

    run(scenario)

    assert not CreditLease.objects.filter(organization=goods.market.customer).exists()


def test_a_process_whose_spool_was_abandoned_serves_nothing_more(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            hold = await process.place(HOLD)
            await process.threads.run(
                spools.mark_abandoned,
                public_id=process.spool.spool_id,
                reason="slip",
                actor=ACTOR,
                now=clock.now() + timedelta(minutes=5),
            )
            await process.serve()
            assert not await process.settlement.ship()
            with pytest.raises(SpoolUnavailable) as refusal:
                await process.open(hold)
            return refusal.value.message

    assert "abandoned" in run(scenario)
