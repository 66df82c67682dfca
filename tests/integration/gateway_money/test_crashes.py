"""kill -9 of a gateway process loses no closed request, doubles none, and settles open ones from their last mark."""

import asyncio
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, datetime
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from portal.billing.models import BudgetLease, CreditLease, LeaseState
from portal.billing.services import leases, posting, reconcile, replay
from portal.core import clock
from portal.core.money import NANO_PER_UNIT
from portal.metering.models import Spool, SpoolState, UsageRecord
from portal.metering.services.spool_files import list_spools
from tests.factories.billing import Market
from tests.integration.gateway_money.rig import (
    Goods,
    Process,
    credit_account,
    database_url,
    deliver,
    name_goods,
    run,
    running,
)

pytestmark = pytest.mark.django_db(transaction=True)

KILLS = int(os.environ.get("POOLHOUSE_KILLS", "30"))
REPOSITORY = Path(__file__).parents[3]


def _goods() -> Goods:
    return Goods(Market(paid_nano=1000 * NANO_PER_UNIT, lease_nano=0))


def _journal(folder: Path) -> tuple[set[str], dict[str, int], dict[str, int]]:
    """Return opened requests, the largest mark of each, and the charge of each that was closed."""
    opened: set[str] = set()
    marked: dict[str, int] = {}
    closed: dict[str, int] = {}
    for path in folder.glob("journal-*"):
        for line in path.read_text().splitlines():
            kind, request, *rest = line.split()
            if kind == "O":
                opened.add(request)
            elif kind == "M":
                marked[request] = max(marked.get(request, 0), int(rest[0]))
            else:
                assert request not in closed
                closed[request] = int(rest[0])
    return opened, marked, closed


def _post_all() -> None:
    while posting.post_usage(now=clock.now(), limit=500).records:
        pass


@pytest.mark.timeout(120 + 3 * KILLS)
def test_killed_processes_lose_nothing_and_double_nothing(tmp_path):
    goods = _goods()
    environ = {**os.environ, "DATABASE_URL": database_url(), "DJANGO_SETTINGS_MODULE": "portal.settings.test"}
    program = "tests.integration.gateway_money.crashing"

    killed = subprocess.run(
        [sys.executable, "-m", program, str(tmp_path), str(KILLS), name_goods(goods)],
        env=environ,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert killed.returncode == 0, killed.stderr[-3000:]

    async def adopt():
        parts = [Process(tmp_path, index=number, goods=goods) for number in (7, 8)]
        async with running(*parts):
            while any(path not in {part.spool.file.path for part in parts} for path in list_spools(tmp_path)):
                await asyncio.gather(*[part.settlement.adopt() for part in parts])

    run(adopt)

    opened, marked, closed = _journal(tmp_path)
    records = {str(row.request_id): row for row in UsageRecord.objects.all()}
    assert len(closed) > KILLS
    assert {request: records[request].charge_nano for request in closed} == closed
    assert opened <= records.keys()
    assert len(records.keys() - opened) <= 6 * KILLS
    cut = {request: records[request] for request in opened - closed.keys()}
    assert Counter(row.outcome for row in cut.values()).keys() <= {"platform_crash", "completed"}
    for request, row in cut.items():
        assert row.delivered_bytes >= marked.get(request, 0)
        assert (row.charge_nano > 0) is (row.delivered_bytes > 0)
    assert any(row.outcome == "platform_crash" and row.charge_nano for row in cut.values())
    assert set(Spool.objects.exclude(pk=goods.market.spool.pk).values_list("state", flat=True)) == {SpoolState.DRAINED}

    _post_all()
    leases.LIFE.finish_closing(now=clock.now())
    account = credit_account(goods.market)
    charged = sum(row.charge_nano for row in records.values())
    assert (account.held, account.credits - account.debits) == (0, 1000 * NANO_PER_UNIT - charged)
    assert set(CreditLease.objects.values_list("state", flat=True)) == {LeaseState.CLOSED}
    assert not BudgetLease.objects.exists()
    assert reconcile.differences(now=clock.now()) == []


def _abandoned(tmp_path, goods: Goods, scenario) -> Process:
    """Run the scenario and let the process vanish as kill -9 would: locks dropped, nothing shipped, nothing closed."""

    async def whole():
        process = Process(tmp_path, goods=goods)
        await scenario(process)
        process.spool.file.shut()
        process.spool._held.close()
        process.settlement.measure.stop()
        process.threads.stop()
        return process

    return run(whole)


def test_a_close_in_the_spool_is_shipped_by_whoever_comes_next(tmp_path):
    goods = _goods()
    _abandoned(tmp_path, goods, lambda process: process.serve())
    assert not UsageRecord.objects.exists()

    found = replay.replay(path=list_spools(tmp_path)[0], now=clock.now())

    assert (found.settled, found.records) == (0, 1)
    assert UsageRecord.objects.get().outcome == "completed"
    assert list_spools(tmp_path) == []


def test_an_open_stream_is_settled_from_its_last_mark(tmp_path):
    goods = _goods()

    async def scenario(process: Process):
        attempt = await process.open(await process.place(1_000_000))
        deliver(attempt, "The sea is deep", prompt=20, cached=5, completion=4)
        await process.settlement.mark_all()
        attempt.deliver(" and this came after the mark")

    _abandoned(tmp_path, goods, scenario)
    replay.replay(path=list_spools(tmp_path)[0], now=clock.now())

    record = UsageRecord.objects.get()
    assert (record.outcome, record.token_source, record.error_code) == ("platform_crash", "mark", "gateway_died")
    assert record.delivered_bytes == len("The sea is deep")
    assert record.completion_tokens == min(4, record.counted_completion_tokens)
    assert (record.cached_tokens, record.charge_nano > 0) == (5, True)
    assert record.charge_nano == record.provider_nano + record.platform_nano


def test_an_open_record_without_a_mark_costs_nothing(tmp_path):
    goods = _goods()

    async def scenario(process: Process):
        await process.open(await process.place(1_000_000))

    _abandoned(tmp_path, goods, scenario)
    replay.replay(path=list_spools(tmp_path)[0], now=clock.now())

    record = UsageRecord.objects.get()
    assert (record.outcome, record.charge_nano, record.opened_at) == ("platform_crash", 0, record.closed_at)
    assert credit_account(goods.market).held == 0


def test_a_crash_between_shipping_and_removing_changes_nothing(tmp_path):
    goods = _goods()
    _abandoned(tmp_path, goods, lambda process: process.serve())
    path = list_spools(tmp_path)[0]
    content = {part: part.read_bytes() for part in tmp_path.iterdir()}
    replay.replay(path=path, now=clock.now())
    for part, written in content.items():
        part.write_bytes(written)

    again = replay.replay(path=path, now=clock.now())

    assert again.records == 1
    assert UsageRecord.objects.count() == 1
    assert list_spools(tmp_path) == []


def test_the_command_brings_in_what_a_dead_process_left(tmp_path):
    goods = _goods()
    _abandoned(tmp_path, goods, lambda process: process.serve())
    output = StringIO()

    call_command("replay_spool", folder=tmp_path, stdout=output)

    assert "1 records, 0 of them settled from marks" in output.getvalue()
    assert "1 spools looked at, 0 could not be brought in" in output.getvalue()
    assert UsageRecord.objects.count() == 1


def test_the_command_says_which_spool_it_could_not_read(tmp_path):
    (tmp_path / "000-spool_broken.sqlite3").write_bytes(b"this is no database" * 500)
    errors = StringIO()

    with pytest.raises(CommandError, match="1 spools could not be brought in"):
        call_command("replay_spool", folder=tmp_path, stdout=StringIO(), stderr=errors)

    assert "spool_broken: billing_unavailable: the usage spool cannot be used" in errors.getvalue()
    assert len(list_spools(tmp_path)) == 1


def test_the_command_needs_a_folder(monkeypatch):
    monkeypatch.delenv("GATEWAY_SPOOL_DIR", raising=False)

    with pytest.raises(CommandError, match="GATEWAY_SPOOL_DIR"):
        call_command("replay_spool")


def test_a_living_process_is_left_alone(tmp_path):
    goods = _goods()

    async def scenario():
        async with running(Process(tmp_path, index=0, goods=goods), Process(tmp_path, index=1, goods=goods)) as parts:
            await parts[0].serve()
            adopted = await parts[1].settlement.adopt()
            return adopted, [replay.__name__ for _ in list_spools(tmp_path)]

    adopted, spools = run(scenario)

    assert (adopted, len(spools)) == (0, 2)
    assert UsageRecord.objects.count() == 1


def test_a_process_that_died_before_it_made_its_file_leaves_nothing_behind(tmp_path):
    (tmp_path / "000-spool_unborn.sqlite3").touch()

    found = replay.replay(path=list_spools(tmp_path)[0], now=datetime(2026, 11, 30, tzinfo=UTC))

    assert (found.settled, found.records) == (0, 0)
    assert not list(tmp_path.iterdir())
    assert not Spool.objects.exists()
