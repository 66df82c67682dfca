"""Without Postgres leases carry on, then 503; without disk nothing is served; nothing is lost either way."""

import asyncio
import resource
import time
from contextlib import contextmanager

import pytest
from django.conf import settings

from portal.billing.rules import leasing
from portal.gateway.credit import BillingUnavailable
from portal.gateway.spool import SpoolUnavailable
from portal.metering.models import UsageRecord
from tests.factories.billing import Market
from tests.fakes.tcp_proxy import TcpProxy
from tests.integration.gateway_money.rig import Goods, Process, credit_account, deliver, run, running, until

pytestmark = pytest.mark.django_db(transaction=True)

HOLD = 1_000_000
TEXT = "The sea is deep and blue."


@pytest.fixture
def goods() -> Goods:
    return Goods(Market(lease_nano=0))


@pytest.fixture
def postgres(monkeypatch):
    """A way to Postgres for the process's threads alone, which the test can cut."""
    database = settings.DATABASES["default"]
    with TcpProxy(database["HOST"], int(database["PORT"])) as proxy:
        monkeypatch.setitem(database, "PORT", str(proxy.port))
        yield proxy


# litellm#18708, #1714: a hundred stuck connections, and the proxy was dead
def test_leases_serve_while_postgres_is_gone_and_all_of_it_arrives_later(goods, tmp_path, postgres):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.serve()
            postgres.cut()
            charges = [(await process.serve()).charge_nano for _ in range(5)]
            assert not await process.settlement.ship()
            postgres.heal()
            await until("the records arrive", lambda: UsageRecord.objects.count() == 6)
            return charges

    charges = run(scenario)

    stored = sorted(UsageRecord.objects.values_list("charge_nano", flat=True))
    assert stored == sorted([*charges, charges[0]])


def test_without_postgres_and_lease_the_answer_is_billing_unavailable(goods, tmp_path, postgres):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            postgres.cut()
            with pytest.raises(BillingUnavailable) as refusal:
                await process.place(HOLD)
            postgres.heal()
            return refusal.value.code, (await process.place(HOLD)).nano

    assert run(scenario) == ("billing_unavailable", HOLD)


def test_a_database_that_hangs_holds_nobody_longer_than_the_deadline(goods, tmp_path, postgres):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.serve()
            await process.place(8 * HOLD)
            postgres.freeze()
            started = time.monotonic()
            with pytest.raises(BillingUnavailable):
                await process.place(5_000 * HOLD)
            waited = time.monotonic() - started
            postgres.heal()
            return waited

    assert run(scenario) < 2.0


def test_near_its_end_a_lease_is_not_spent_from(goods, tmp_path, postgres):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            process.credit.release(await process.place(HOLD), 0)
            (lease,) = process.credit._credit[goods.key.organization_id].pool
            postgres.cut()
            served = await process.place(HOLD)
            lease.expires_at = time.time() + leasing.FENCE.total_seconds() - 1
            with pytest.raises(BillingUnavailable):
                await process.place(HOLD)
            postgres.heal()
            return served.nano

    assert run(scenario) == HOLD


def test_a_lost_grant_is_found_again_by_the_next(goods, tmp_path, postgres):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            await process.place(HOLD)
            purse = process.credit._credit[goods.key.organization_id]
            (lease,) = purse.pool
            lease.granted = lease.held
            await process.place(HOLD)
            return lease.granted

    granted = run(scenario)

    assert granted >= 2 * HOLD


@contextmanager
def _full_disk(process: Process):
    """Let the kernel refuse every write beyond what the spool's log has, as a full disk does."""
    log = process.spool.file.path.database
    size = log.with_name(log.name + "-wal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_opens_nothing_and_leaves_no_hold(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            hold = await process.place(HOLD)
            with _full_disk(process), pytest.raises(SpoolUnavailable) as refusal:
                await process.open(hold)
            process.credit.release(hold, 0)
            settled = await process.serve()
            return refusal.value.code, process.credit.held_nano(goods.key.organization_id), settled.charge_nano

    code, held, charge = run(scenario)

    assert (code, held) == ("billing_unavailable", 0)
    assert list(UsageRecord.objects.values_list("charge_nano", flat=True)) == [charge]


def test_a_close_that_finds_no_room_keeps_its_hold_until_it_is_written(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await process.open(await process.place(HOLD))
            deliver(attempt, TEXT)
            with _full_disk(process):
                settled = await process.settlement.close(attempt, outcome="completed")
                held = process.credit.held_nano(goods.key.organization_id)
            await process.settlement._write_again()
            return settled.charge_nano, held, process.credit.held_nano(goods.key.organization_id)

    charge, held, after = run(scenario)

    assert (held, after) == (HOLD, 0)
    assert UsageRecord.objects.get().charge_nano == charge > 0
    assert credit_account(goods.market).held == charge


def test_a_close_goes_on_when_its_caller_is_cancelled(goods, tmp_path):
    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await process.open(await process.place(HOLD))
            deliver(attempt, TEXT)
            closing = asyncio.create_task(process.settlement.close(attempt, outcome="customer_abort"))
            await asyncio.sleep(0)
            closing.cancel()
            await asyncio.gather(closing, return_exceptions=True)

    run(scenario)

    assert UsageRecord.objects.get().outcome == "customer_abort"
