"""Ten minutes without Postgres: served from leases until their terms end, then 503; afterwards nothing is missing."""

import pytest
from django.conf import settings

from portal.billing.models import CreditLease, LeaseState
from portal.billing.rules import leasing
from portal.billing.services import lease_sweep, posting, reconcile
from portal.core import clock
from portal.core.money import NANO_PER_UNIT
from portal.gateway import lease_keeper
from portal.gateway.credit import BillingUnavailable
from portal.metering.models import Spool, SpoolState, UsageRecord
from portal.metering.services import spool_files
from tests.factories.billing import Market
from tests.fakes.tcp_proxy import TcpProxy
from tests.integration.gateway_money.rig import Goods, Process, credit_account, run, running, until

pytestmark = pytest.mark.django_db(transaction=True)

HOLD = 1_000_000
PAID = 1_000 * NANO_PER_UNIT


@pytest.fixture
def goods() -> Goods:
    return Goods(Market(paid_nano=PAID, lease_nano=0))


@pytest.fixture
def postgres(monkeypatch):
    """A way to Postgres for the process's threads alone, which the test can break."""
    database = settings.DATABASES["default"]
    with TcpProxy(database["HOST"], int(database["PORT"])) as proxy:
        monkeypatch.setitem(database, "PORT", str(proxy.port))
        yield proxy


def _pass_time(process: Process, seconds: float) -> None:
    """Let the terms of all leases run: that is all that minutes change for a process without a database."""
    for purse in process.credit._credit.values():
        for lease in purse.pool:
            lease.expires_at -= seconds


def _settle(goods: Goods) -> None:
    posting.post_all(now=clock.now())
    lease_sweep.sweep(now=clock.now())
    account = credit_account(goods.market)
    charged = sum(UsageRecord.objects.values_list("charge_nano", flat=True))
    assert (account.held, account.credits - account.debits) == (0, PAID - charged)
    assert set(CreditLease.objects.values_list("state", flat=True)) == {LeaseState.CLOSED}
    assert reconcile.differences(now=clock.now()) == []


def test_ten_minutes_without_postgres_are_served_and_all_of_it_arrives_once(goods, tmp_path, postgres):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.serve()
            # The worst moment for it to go: just before the lease would have been renewed.
            _pass_time(process, leasing.TERM.total_seconds() - lease_keeper._RENEW_BELOW_S)
            postgres.cut()
            charges = []
            for _ in range(20):
                charges.append((await process.serve()).charge_nano)
                _pass_time(process, 30)
            assert not await process.settlement.ship()
            _pass_time(process, 65)
            with pytest.raises(BillingUnavailable):
                await process.serve()
            postgres.heal()
            await until("the records arrive", lambda: UsageRecord.objects.count() == 21)
            again = (await process.serve()).charge_nano
            assert await process.settlement.ship()
            assert await process.settlement.ship()
            return charges, again

    charges, again = run(scenario)

    assert sorted(UsageRecord.objects.values_list("charge_nano", flat=True)) == sorted([*charges, charges[0], again])
    _settle(goods)


# litellm#34675
def test_a_batch_whose_commit_was_not_answered_is_stored_once(goods, tmp_path, postgres):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.serve()
            await until("the first record is in", lambda: UsageRecord.objects.count() == 1)
            for task in process.settlement._tasks:
                task.cancel()
            charges = [(await process.serve()).charge_nano for _ in range(7)]
            postgres.lose_answer_to(b"COMMIT")
            is_answered = await process.settlement.ship()
            assert postgres.has_lost_answer
            stored = await until("the batch is stored", lambda: UsageRecord.objects.count() == 8)
            shipped = process.spool.shipped_seq
            assert await process.settlement.ship()
            return charges, is_answered, stored, shipped

    charges, is_answered, stored, shipped = run(scenario)

    assert (is_answered, stored, shipped) == (False, True, 1)
    assert sorted(UsageRecord.objects.values_list("charge_nano", flat=True)) == sorted([*charges, charges[0]])
    _settle(goods)


# litellm#38157, litellm#34805, bifrost#3548
def test_a_process_that_stops_without_postgres_leaves_its_spool_to_the_next(goods, tmp_path, postgres):
    async def stopped():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            charges = [(await process.serve()).charge_nano]
            await until("the first record is in", lambda: UsageRecord.objects.count() == 1)
            postgres.cut()
            return [*charges, *[(await process.serve()).charge_nano for _ in range(3)]]

    async def next_start():
        async with running(Process(tmp_path, index=1, goods=goods)) as (process,):
            await until("the old spool is gone", lambda: len(spool_files.list_spools(tmp_path)) == 1)
            return process.spool.spool_id

    charges = run(stopped)
    left = len(spool_files.list_spools(tmp_path))
    postgres.heal()
    run(next_start)

    assert left == 1
    assert sorted(UsageRecord.objects.values_list("charge_nano", flat=True)) == sorted(charges)
    assert set(Spool.objects.exclude(pk=goods.market.spool.pk).values_list("state", flat=True)) == {SpoolState.DRAINED}
    _settle(goods)
