"""The hold of a long stream grows ahead of it; where it cannot, the stream ends and nothing is given away."""

import asyncio
import time
from datetime import timedelta

import pytest
from django.conf import settings

from portal.billing.models import CreditLease, LeaseState
from portal.billing.rules import leasing
from portal.billing.selectors.differences import found
from portal.billing.services import lease_sweep, posting, recompute, replay
from portal.core import clock
from portal.gateway.contracts import Attempt
from portal.gateway.coverage import HELD_TOKENS
from portal.gateway.credit import BillingUnavailable, BudgetExhausted, CreditExhausted, CreditHeld, HoldEnded
from portal.gateway.refusals import MoneyRefused
from portal.metering.models import UsageRecord
from tests.factories.billing import Market
from tests.fakes.tcp_proxy import TcpProxy
from tests.integration.gateway_money.rig import Goods, Process, credit_account, run, running, until

pytestmark = pytest.mark.django_db(transaction=True)

PROMPT, TOKEN = 200 * 200, 800  # nano for the prompt's bound, and for one token of output
FIRST = PROMPT + HELD_TOKENS * TOKEN
BOUND = 20_000
TEXT = "The sea is deep and blue, and so is the sky above it. "


def _goods(credit: int, *, cap: int | None = None) -> Goods:
    market = Market(paid_nano=credit, lease_nano=0)
    market.key.budget_cap_nano = cap
    market.key.save()
    return Goods(market)


async def _begin(process: Process, **facts: object) -> Attempt:
    hold = await process.place(FIRST)
    return await process.open(hold, output_bound_tokens=BOUND, **facts)


async def _stream(attempt: Attempt, pieces: int, text: str = TEXT) -> MoneyRefused | None:
    """Hand pieces over as the relay does, up to the first that the hold does not cover."""
    attempt.first_token_at = clock.now().timestamp()
    for _ in range(pieces):
        try:
            if attempt.cover is not None:
                await attempt.cover.reach([(0, text)])
        except MoneyRefused as refusal:
            return refusal
        attempt.deliver(text)
    return None


async def _end(process: Process, attempt: Attempt, outcome: str, code: str = ""):
    attempt.finished_choices = 0 if code else 1
    return await process.settlement.close(attempt, outcome=outcome, error_code=code)


def _books_are_right() -> None:
    while posting.post_usage(now=clock.now()).records:
        pass
    assert list(found()) == []
    assert all(
        charge.is_right for row in UsageRecord.objects.all() for charge in recompute.request(request_id=row.request_id)
    )


def test_a_long_stream_is_never_held_whole_and_costs_what_it_delivered(tmp_path):
    goods = _goods(100 * FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            first = attempt.hold.nano
            refusal = await _stream(attempt, 600)
            grown = attempt.hold.nano
            settled = await _end(process, attempt, "completed")
            await process.settlement.ship()
            return first, refusal, grown, settled

    first, refusal, grown, settled = run(scenario)

    assert (first, refusal) == (FIRST, None)
    assert FIRST < grown < PROMPT + BOUND * TOKEN
    assert settled.completion_tokens > HELD_TOKENS
    row = UsageRecord.objects.get()
    assert (row.hold_nano, row.charge_nano) == (grown, settled.charge_nano)
    assert settled.charge_nano == settled.prompt_tokens * 200 + settled.completion_tokens * TOKEN
    _books_are_right()
    assert credit_account(goods.market).debits == settled.charge_nano


# sub2api#7002
def test_a_long_stream_ends_where_credit_does_and_the_balance_stays_above_zero(tmp_path):
    credit = PROMPT + 6_000 * TOKEN
    goods = _goods(credit)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            refusal = await _stream(attempt, 5_000)
            settled = await _end(process, attempt, "credit_end", refusal.code)
            await process.settlement.ship()
            return attempt, refusal, settled

    attempt, refusal, settled = run(scenario)

    assert isinstance(refusal, CreditExhausted)
    assert "The answer ends here" in refusal.message
    # Steps of 4,096, 1,024 and 256 tokens: what is left at the end is less than the smallest.
    assert attempt.hold.nano == PROMPT + (4_096 + 1_024 + 3 * 256) * TOKEN
    assert 5_700 < settled.completion_tokens <= 5_888
    assert settled.charge_nano == settled.prompt_tokens * 200 + settled.completion_tokens * TOKEN <= attempt.hold.nano
    row = UsageRecord.objects.get()
    assert (row.outcome, row.error_code) == ("credit_end", "credit_balance_exhausted")
    _books_are_right()
    account = credit_account(goods.market)
    assert account.credits - account.debits == credit - settled.charge_nano > 0


def test_without_a_tokenizer_every_byte_counts_as_a_token(tmp_path):
    goods = _goods(FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods, read_artefact=lambda sha256: None)) as (process,):
            attempt = await _begin(process)
            refusal = await _stream(attempt, 5_000)
            return attempt, refusal, await _end(process, attempt, "credit_end", refusal.code)

    attempt, refusal, settled = run(scenario)

    assert isinstance(refusal, CreditExhausted)
    assert HELD_TOKENS - 200 < attempt.delivered_bytes <= HELD_TOKENS
    assert settled.completion_tokens == attempt.delivered_bytes
    assert settled.charge_nano == PROMPT + attempt.delivered_bytes * TOKEN <= FIRST


def test_what_is_held_pays_for_the_dearest_claim_there_can_be(tmp_path):
    goods = _goods(FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            refusal = await _stream(attempt, 5_000, text="é1!")
            attempt.claim.prompt, attempt.claim.completion = 200, 10**6
            return await _end(process, attempt, "credit_end", refusal.code)

    settled = run(scenario)

    assert settled.token_source == "count"
    assert settled.charge_nano == settled.prompt_tokens * 200 + settled.completion_tokens * TOKEN <= FIRST


def test_the_mark_of_each_second_holds_more_before_the_stream_needs_it(tmp_path):
    goods = _goods(100 * FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            for _ in range(2):
                assert attempt.hold.nano == FIRST
                await _stream(attempt, 66)
                await process.settlement.mark_all()
            await until("the hold has grown", lambda: attempt.hold.nano > FIRST)
            return attempt.hold.nano

    assert run(scenario) == FIRST + HELD_TOKENS * TOKEN


def test_credit_that_other_requests_hold_ends_a_stream_in_other_words(tmp_path):
    goods = _goods(10 * FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            others = await process.place(9 * FIRST)
            refusal = await _stream(attempt, 5_000)
            process.credit.release(others, 0)
            return refusal, await _stream(attempt, 100)

    refusal, again = run(scenario)

    assert isinstance(refusal, CreditHeld)
    assert refusal.code == "credit_held"
    assert again is None


def test_a_budget_ends_a_stream_and_is_named(tmp_path):
    goods = _goods(100 * FIRST, cap=FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            refusal = await _stream(attempt, 5_000)
            settled = await _end(process, attempt, "credit_end", refusal.code)
            await process.settlement.ship()
            return refusal, settled

    refusal, settled = run(scenario)

    assert isinstance(refusal, BudgetExhausted)
    assert "monthly budget of this key" in refusal.message
    assert 0 < settled.charge_nano <= FIRST
    _books_are_right()


def test_without_postgres_a_stream_goes_as_far_as_it_is_held(tmp_path, monkeypatch):
    goods = _goods(FIRST + 1)
    database = settings.DATABASES["default"]

    async def scenario(proxy: TcpProxy):
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            proxy.cut()
            refusal = await _stream(attempt, 5_000)
            proxy.heal()
            return attempt, refusal, await _end(process, attempt, "credit_end", refusal.code)

    with TcpProxy(database["HOST"], int(database["PORT"])) as proxy:
        monkeypatch.setitem(database, "PORT", str(proxy.port))
        attempt, refusal, settled = run(lambda: scenario(proxy))

    assert isinstance(refusal, BillingUnavailable)
    assert attempt.hold.nano == FIRST
    assert HELD_TOKENS - 200 < settled.completion_tokens <= HELD_TOKENS


def test_a_lease_that_ends_under_a_stream_is_wound_up_and_another_one_carries_on(tmp_path):
    goods = _goods(100 * FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            attempt = await _begin(process)
            (lease,) = attempt.hold.credit.purse.pool
            lease.expires_at = time.time() + 30
            swept = await process.threads.run(lease_sweep.sweep, now=clock.now() + leasing.TERM + timedelta(seconds=1))
            refusal = await _stream(attempt, 600)
            parts = attempt.hold.draws().credit
            settled = await _end(process, attempt, "completed")
            await process.settlement.ship()
            return swept, refusal, parts, settled

    swept, refusal, parts, settled = run(scenario)

    assert (swept.fenced, swept.closed, refusal) == (1, 0, None)
    assert len(parts) == 2
    row = UsageRecord.objects.get()
    assert row.lease_ids == [lease_id for lease_id, _ in parts]
    assert sum(row.lease_charges) == settled.charge_nano > row.lease_charges[0] == parts[0][1]
    _books_are_right()
    lease_sweep.sweep(now=clock.now())
    assert set(CreditLease.objects.values_list("state", flat=True)) == {LeaseState.CLOSED}
    assert credit_account(goods.market).held == 0


def test_a_process_that_dies_after_its_hold_grew_is_settled_from_what_was_held_at_the_mark(tmp_path):
    goods = _goods(100 * FIRST)

    async def scenario():
        process = await Process(tmp_path, goods=goods).start()
        attempt = await _begin(process)
        await _stream(attempt, 600)
        await process.settlement.mark_all()
        await process.credit.stop()
        for task in process.settlement._tasks:
            task.cancel()
        process.spool.leave(is_empty=False)
        held = attempt.hold.nano
        found_there = await process.threads.run(replay.replay, path=process.spool.file.path, now=clock.now())
        process.threads.stop()
        return held, found_there.settled

    held, settled = run(scenario)

    assert settled == 1
    row = UsageRecord.objects.get()
    assert row.outcome == "platform_crash"
    assert FIRST < row.charge_nano <= row.hold_nano <= held
    _books_are_right()
    assert credit_account(goods.market).held == 0


def test_a_request_that_ends_while_its_hold_grows_leaves_nothing_held(tmp_path):
    goods = _goods(10 * FIRST)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            hold = await process.place(FIRST)
            others = await process.place(9 * FIRST)
            growing = asyncio.create_task(process.credit.extend(hold, FIRST))
            await asyncio.sleep(0.2)
            process.credit.release(hold, 0)
            process.credit.release(others, 0)
            with pytest.raises(HoldEnded):
                await growing
            return process.credit.held_nano(goods.key.organization_id)

    assert run(scenario) == 0
