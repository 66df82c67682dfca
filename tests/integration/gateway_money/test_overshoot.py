"""Credit for ten lets exactly ten through, whoever asks and wherever: over several processes, to the nano."""

import asyncio

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import BudgetWindow, CreditLease, LedgerAccount
from portal.billing.selectors import balances
from portal.billing.services import posting, postpaid, reconcile
from portal.core import clock
from portal.gateway.credit import BudgetExhausted, CreditExhausted, CreditHeld
from portal.metering.models import UsageRecord
from tests.factories.accounts import UserFactory
from tests.factories.billing import Market
from tests.integration.gateway_money.rig import Goods, Process, credit_account, deliver, key_entry, run, running

pytestmark = pytest.mark.django_db(transaction=True)

HOLD = 1_000_000
ASKING = 500


def _goods(paid: int, *, promo: int = 0, cap: int | None = None) -> Goods:
    market = Market(paid_nano=paid, promo_nano=promo, lease_nano=0)
    market.key.budget_cap_nano = cap
    market.key.save()
    return Goods(market)


async def _ask(processes, number: int, nano: int = HOLD) -> list:
    """Ask for money at the same time, in turn on each process; return holds and refusals."""
    asking = [processes[turn % len(processes)].place(nano) for turn in range(number)]
    return await asyncio.gather(*asking, return_exceptions=True)


def _granted(answers: list) -> list:
    return [answer for answer in answers if not isinstance(answer, BaseException)]


@pytest.mark.parametrize("processes", [1, 3])
def test_exactly_ten_of_five_hundred_are_served_and_nothing_overshoots(tmp_path, processes):
    goods = _goods(10 * HOLD)

    async def scenario():
        parts = [Process(tmp_path, index=number, goods=goods, is_listening=True) for number in range(processes)]
        async with running(*parts):
            answers = await _ask(parts, ASKING)
            for hold in _granted(answers):
                owner = next(
                    part for part in parts if part.credit.held_nano(hold.organization_id) and _is_of(part, hold)
                )
                attempt = await owner.open(hold, prompt_bound_tokens=10**6, output_bound_tokens=10**6)
                deliver(attempt, "x" * 40_000)
                await owner.settlement.close(attempt, outcome="completed")
            return answers

    answers = run(scenario)

    assert len(_granted(answers)) == 10
    assert {type(answer) for answer in answers} - {type(_granted(answers)[0])} == {CreditHeld}
    assert list(UsageRecord.objects.values_list("charge_nano", flat=True)) == [HOLD] * 10
    while posting.post_usage(now=clock.now(), limit=100).records:
        pass
    account = credit_account(goods.market)
    assert (account.credits - account.debits, account.held) == (0, 0)
    assert [each for each in reconcile.differences(now=clock.now()) if each.code != "charge_differs_from_price"] == []


@pytest.mark.parametrize("processes", [1, 3])
def test_a_limit_of_ten_lets_exactly_ten_of_five_hundred_draw_on_it(tmp_path, processes):
    goods = _goods(0)
    customer, operator = goods.market.customer, UserFactory(is_operator=True)
    postpaid.offer(
        organization=customer,
        terms=postpaid.Terms(limit_nano=10 * HOLD, due_days=14),
        operator=operator,
        actor=SYSTEM_ACTOR,
        now=clock.now(),
    )
    postpaid.accept(organization=customer, user=operator, actor=SYSTEM_ACTOR, now=clock.now())

    async def scenario():
        parts = [Process(tmp_path, index=number, goods=goods, is_listening=True) for number in range(processes)]
        async with running(*parts):
            answers = await _ask(parts, ASKING)
            for hold in _granted(answers):
                owner = next(part for part in parts if _is_of(part, hold))
                attempt = await owner.open(hold, prompt_bound_tokens=10**6, output_bound_tokens=10**6)
                deliver(attempt, "x" * 40_000)
                await owner.settlement.close(attempt, outcome="completed")
            return answers

    answers = run(scenario)

    assert len(_granted(answers)) == 10
    assert {type(answer) for answer in answers} - {type(_granted(answers)[0])} == {CreditHeld}
    while posting.post_usage(now=clock.now(), limit=100).records:
        pass
    account = LedgerAccount.objects.get(code=f"postpaid_line:{customer.public_id}")
    assert (account.credits - account.debits, account.held) == (0, 0)
    assert balances.customer_balance(organization=customer.public_id).drawn_nano == 10 * HOLD
    assert [each for each in reconcile.differences(now=clock.now()) if each.code != "charge_differs_from_price"] == []


def _is_of(part: Process, hold) -> bool:
    purse = part.credit._credit.get(hold.organization_id)
    return purse is not None and purse is hold.credit.purse


def test_fragments_left_idle_on_two_processes_come_together(tmp_path):
    goods = _goods(10 * HOLD)

    async def scenario():
        parts = [Process(tmp_path, index=number, goods=goods, is_listening=True) for number in range(2)]
        async with running(*parts):
            first = await parts[0].place(7 * HOLD)
            parts[0].credit.release(first, 0)
            second = await parts[1].place(2 * HOLD)
            parts[1].credit.release(second, 0)
            return len(_granted(await _ask(parts, 20)))

    assert run(scenario) == 10


def test_a_process_that_needs_nothing_returns_what_lies_idle_within_a_second(tmp_path):
    goods = _goods(10 * HOLD)

    async def scenario():
        idle, asking = (Process(tmp_path, index=number, goods=goods, is_listening=True) for number in range(2))
        async with running(idle, asking):
            idle.credit.release(await idle.place(10 * HOLD), 0)
            started = asyncio.get_running_loop().time()
            hold = await asking.place(10 * HOLD)
            return hold.nano, asyncio.get_running_loop().time() - started

    nano, seconds = run(scenario)

    assert nano == 10 * HOLD
    assert seconds < 1.0


def test_a_request_beyond_the_credit_is_refused_at_once_with_the_numbers(tmp_path):
    goods = _goods(10 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            with pytest.raises(CreditExhausted) as refusal:
                await process.place(10 * HOLD + 1)
            return refusal.value.message

    message = run(scenario)

    assert "Your credit of 0.01 USD (0 USD of it held" in message
    assert "needs up to 0.010000001 USD" in message
    assert not CreditLease.objects.filter(spool__process__contains="on test", granted__gt=0).exists()


def test_credit_held_by_running_requests_is_another_refusal(tmp_path):
    goods = _goods(10 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            holds = [await process.place(3 * HOLD) for _ in range(3)]
            with pytest.raises(CreditHeld) as refusal:
                await process.place(3 * HOLD)
            process.credit.release(holds[0], 0)
            again = await process.place(3 * HOLD)
            return refusal.value.message, again.nano

    message, nano = run(scenario)

    assert "0.009 USD is held by requests that still run and 0.001 USD is left" in message
    assert nano == 3 * HOLD


def test_a_hold_that_ends_while_others_wait_lets_one_of_them_through(tmp_path):
    goods = _goods(HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            first = await process.place(HOLD)
            waiting = asyncio.create_task(process.place(HOLD))
            await asyncio.sleep(0.3)
            process.credit.release(first, 0)
            return (await waiting).nano

    assert run(scenario) == HOLD


def test_promotional_credit_is_spent_first(tmp_path):
    goods = _goods(10 * HOLD, promo=2 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            holds = [await process.place(HOLD) for _ in range(3)]
            return [hold.draws().credit for hold in holds]

    used = run(scenario)

    kinds = dict(CreditLease.objects.values_list("pk", "account__kind"))
    assert [[kinds[lease_id] for lease_id, _ in parts] for parts in used] == [
        ["promo_credit"],
        ["promo_credit"],
        ["customer_credit"],
    ]


def test_a_keys_budget_lets_exactly_its_cap_through_on_three_processes(tmp_path):
    goods = _goods(1_000 * HOLD, cap=10 * HOLD)

    async def scenario():
        parts = [Process(tmp_path, index=number, goods=goods, is_listening=True) for number in range(3)]
        async with running(*parts):
            return await _ask(parts, 200)

    answers = run(scenario)

    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(_granted(answers)) == 10
    assert {type(answer) for answer in refused} == {BudgetExhausted}
    assert "resets at" in refused[0].message
    assert BudgetWindow.objects.get().used_nano == 0


def test_a_refused_credit_gives_its_budget_back(tmp_path):
    goods = _goods(HOLD, cap=100 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            with pytest.raises(CreditExhausted):
                await process.place(2 * HOLD)
            (purse,) = process.credit._budgets.all()
            return purse.pool.held

    assert run(scenario) == 0


def test_two_keys_of_one_organization_share_its_credit_and_not_their_budgets(tmp_path):
    goods = _goods(100 * HOLD, cap=2 * HOLD)
    other = type(goods.market.key).objects.get(pk=goods.market.key.pk)
    other.pk, other.public_id, other.digest, other.budget_cap_nano = None, "other", "0" * 64, None
    other.save()
    uncapped = key_entry(other)

    async def scenario():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            capped = await asyncio.gather(*[process.place(HOLD) for _ in range(3)], return_exceptions=True)
            free = await process.place(50 * HOLD, key=uncapped)
            return len(_granted(capped)), free.budgets

    assert run(scenario) == (2, ())
