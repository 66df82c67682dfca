"""A request draws on the budgets of its key, its project and its organization, each in its own window and zone."""

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import time_machine
from django.conf import settings

from portal.accounts.models import Project
from portal.billing.models import BudgetLease, BudgetWindow, LeaseState
from portal.billing.selectors import budgets as selectors
from portal.billing.selectors.differences import found
from portal.billing.services import lease_sweep, posting
from portal.core import clock
from portal.gateway.contracts import KeyEntry
from portal.gateway.credit import BillingUnavailable, BudgetExhausted, CreditHeld
from portal.metering.models import UsageRecord
from tests.factories.billing import Market, budget_of
from tests.fakes.tcp_proxy import TcpProxy
from tests.integration.gateway_money.rig import Goods, Process, run, running

pytestmark = pytest.mark.django_db(transaction=True)

HOLD = 1_000_000


class Owners:
    """A key in a project of an organization, each with a budget."""

    def __init__(self, *, key: int, project: int, organization: int, credit: int = 1_000 * HOLD, zone: str = "UTC"):
        self.market = market = Market(paid_nano=credit, lease_nano=0)
        self.project = Project.objects.create(
            organization=market.customer,
            name="search",
            created_at=clock.now(),
            budget_cap_nano=project,
            budget_period="week",
        )
        market.key.budget_cap_nano, market.key.budget_period, market.key.project = key, "day", self.project
        market.key.save()
        market.customer.budget_cap_nano, market.customer.budget_period = organization, "lifetime"
        market.customer.save()
        self.zone = zone
        self.goods = Goods(market)
        self.goods.key = self.entry()

    def entry(self) -> KeyEntry:
        owners = (self.market.key, self.project, self.market.customer)
        return replace(self.goods.key, budgets=tuple(budget_of(owner, zone=self.zone) for owner in owners))


def _post() -> None:
    while posting.post_usage(now=clock.now()).records:
        pass


def _used() -> dict[str, int]:
    return dict(BudgetWindow.objects.values_list("period", "used_nano"))


def test_a_request_counts_in_every_budget_and_the_books_agree(tmp_path):
    owners = Owners(key=10 * HOLD, project=20 * HOLD, organization=30 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            settled = await process.serve()
            await process.settlement.ship()
            return settled.charge_nano

    charge = run(scenario)

    row = UsageRecord.objects.get()
    assert (len(row.budget_lease_ids), row.budget_charges) == (3, [charge] * 3)
    _post()
    lease_sweep.sweep(now=clock.now())
    assert _used() == {"day": charge, "week": charge, "lifetime": charge}
    assert set(BudgetLease.objects.values_list("state", flat=True)) == {LeaseState.CLOSED}
    assert list(found()) == []


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        ({"key": 1}, "The daily budget of this key, 0.001 USD, has 0 USD left (0 USD spent, 0.001 USD held"),
        ({"project": 1}, "The weekly budget of this key's project, 0.001 USD, has 0 USD left"),
        ({"organization": 1}, "The lifetime budget of your organization, 0.001 USD, has 0 USD left"),
    ],
)
def test_the_refusal_says_whose_budget_what_is_left_and_when_it_resets(tmp_path, caps, words):
    nano = {name: cap * HOLD for name, cap in caps.items()}
    owners = Owners(**{"key": 9 * HOLD, "project": 9 * HOLD, "organization": 9 * HOLD} | nano, zone="Europe/Berlin")

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            await process.place(HOLD)
            with pytest.raises(BudgetExhausted) as refusal:
                await process.place(HOLD)
            return refusal.value, process.credit.held_nano(owners.market.customer.pk)

    refusal, held = run(scenario)

    assert refusal.code == "key_budget_exhausted"
    assert words in refusal.message
    assert "this request needs up to 0.001 USD" in refusal.message
    assert held == HOLD
    if "organization" in caps:
        assert refusal.message.endswith("It never resets.")
    else:
        assert refusal.message.endswith(":00 (Europe/Berlin).")
        assert "T00:00:00+0" in refusal.message


def test_what_a_refused_request_took_of_other_budgets_and_credit_is_given_back(tmp_path):
    owners = Owners(key=9 * HOLD, project=9 * HOLD, organization=9 * HOLD, credit=HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            await process.place(HOLD)
            with pytest.raises(CreditHeld):
                await process.place(HOLD)
            return [purse.pool.held for purse in process.credit._budgets.all()]

    assert run(scenario) == [HOLD] * 3


def test_the_window_ends_at_midnight_of_the_zone_and_the_hold_stays_in_its_own(tmp_path):
    berlin = ZoneInfo("Europe/Berlin")
    before = datetime(2026, 10, 25, 23, 59, 50, tzinfo=berlin)  # the day of twenty-five hours

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            late = await process.credit.place(key=owners.goods.key, nano=HOLD, now=before)
            with pytest.raises(BudgetExhausted) as refusal:
                await process.credit.place(key=owners.goods.key, nano=HOLD, now=before + timedelta(seconds=9))
            early = await process.credit.place(key=owners.goods.key, nano=HOLD, now=before + timedelta(seconds=10))
            attempt = await process.open(late)
            process.credit.release(early, 0)
            attempt.deliver("The sea.")
            await process.settlement.close(attempt, outcome="completed")
            await process.settlement.ship()
            return refusal.value.message

    with time_machine.travel(before, tick=True):
        owners = Owners(key=HOLD, project=9 * HOLD, organization=9 * HOLD, zone="Europe/Berlin")
        message = run(scenario)

    assert "It resets at 2026-10-26T00:00:00+01:00 (Europe/Berlin)." in message
    _post()
    days = BudgetWindow.objects.filter(period="day").order_by("starts_at")
    charge = UsageRecord.objects.get().charge_nano
    assert [(row.ends_at - row.starts_at, row.used_nano) for row in days] == [
        (timedelta(hours=25), charge),
        (timedelta(hours=24), 0),
    ]


def test_pages_read_where_a_budget_stands(tmp_path):
    owners = Owners(key=10 * HOLD, project=20 * HOLD, organization=30 * HOLD, zone="America/New_York")

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            settled = await process.serve()
            await process.settlement.ship()
            return settled.charge_nano

    charge = run(scenario)
    _post()
    lease_sweep.sweep(now=clock.now())

    now = clock.now()
    key, project, organization = selectors.standings(budgets=owners.goods.key.budgets, now=now)
    assert (key.cap_nano, key.spent_nano, key.held_nano, key.left_nano) == (10 * HOLD, charge, 0, 10 * HOLD - charge)
    assert (project.period, project.spent_nano) == ("week", charge)
    assert project.resets_at.weekday() == 0
    assert str(project.resets_at.tzinfo) == "America/New_York"
    assert (organization.spent_nano, organization.resets_at) == (charge, None)
    untouched = replace(owners.goods.key.budgets[0], owner="nobody")
    assert selectors.standing(terms=untouched, now=now).left_nano == 10 * HOLD


# litellm#26672, #34732, #40095, new-api#6609, one-api#2440: check, then spend lets bursts pass
def test_a_burst_does_not_pass_a_projects_budget_on_three_processes(tmp_path):
    owners = Owners(key=500 * HOLD, project=10 * HOLD, organization=500 * HOLD)

    async def scenario():
        parts = [Process(tmp_path, index=number, goods=owners.goods, is_listening=True) for number in range(3)]
        async with running(*parts):
            asking = [parts[turn % 3].place(HOLD) for turn in range(200)]
            return await asyncio.gather(*asking, return_exceptions=True)

    answers = run(scenario)

    refused = [answer for answer in answers if isinstance(answer, BaseException)]
    assert len(answers) - len(refused) == 10
    assert {type(answer) for answer in refused} == {BudgetExhausted}


# litellm#27639, #36926, #40050: reservations that leak refuse at half the real spend
def test_no_hold_leaks_so_a_budget_serves_to_its_last_nano(tmp_path):
    owners = Owners(key=10 * HOLD, project=50 * HOLD, organization=50 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            for _ in range(40):
                process.credit.release(await process.place(10 * HOLD), 0)
            for _ in range(9):
                process.credit.release(await process.place(HOLD), HOLD)
            return (await process.place(HOLD)).nano

    assert run(scenario) == HOLD


# litellm#33923: what cannot be held is not served
def test_a_budget_that_cannot_be_asked_serves_nothing(tmp_path, monkeypatch):
    owners = Owners(key=10 * HOLD, project=50 * HOLD, organization=50 * HOLD)
    database = settings.DATABASES["default"]

    async def scenario(proxy: TcpProxy):
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            proxy.cut()
            with pytest.raises(BillingUnavailable):
                await process.place(HOLD)
            proxy.heal()
            return (await process.place(HOLD)).nano

    with TcpProxy(database["HOST"], int(database["PORT"])) as proxy:
        monkeypatch.setitem(database, "PORT", str(proxy.port))
        assert run(lambda: scenario(proxy)) == HOLD


# litellm#35569: what failed half-way is not applied twice
def test_a_charge_counts_once_however_often_it_is_released_or_posted(tmp_path):
    owners = Owners(key=10 * HOLD, project=50 * HOLD, organization=50 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            hold = await process.place(4 * HOLD)
            process.credit.release(hold, HOLD)
            process.credit.release(hold, HOLD)
            return [(lease.used, lease.held) for purse in process.credit._budgets.all() for lease in purse.pool]

    assert run(scenario) == [(HOLD, 0)] * 3


# litellm#27021: one place decides, so the first request of exactly the budget is served
def test_a_request_of_exactly_the_budget_is_served(tmp_path):
    owners = Owners(key=10 * HOLD, project=10 * HOLD, organization=10 * HOLD, credit=10 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            hold = await process.place(10 * HOLD)
            with pytest.raises(BudgetExhausted):
                await process.place(1)
            return hold.nano

    assert run(scenario) == 10 * HOLD


# litellm#25374, bifrost#3547: a budget is one for all processes and does not begin anew with them
def test_a_process_that_starts_again_finds_the_budget_as_it_was(tmp_path):
    owners = Owners(key=10 * HOLD, project=50 * HOLD, organization=50 * HOLD)

    async def spend(nano: int) -> int:
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            attempt = await process.open(
                await process.place(nano), prompt_bound_tokens=10**6, output_bound_tokens=10**6
            )
            attempt.deliver("x" * 400_000)
            return (await process.settlement.close(attempt, outcome="completed")).charge_nano

    charged = run(lambda: spend(7 * HOLD))
    assert charged == 7 * HOLD
    with pytest.raises(BudgetExhausted) as refusal:
        run(lambda: spend(3 * HOLD + 1))
    assert run(lambda: spend(3 * HOLD)) == 3 * HOLD

    assert "has 0.003 USD left" in refusal.value.message
    _post()
    assert _used()["day"] == 10 * HOLD


# bifrost#5925: a changed setting keeps what was spent
def test_a_new_cap_keeps_what_was_spent(tmp_path):
    owners = Owners(key=10 * HOLD, project=50 * HOLD, organization=50 * HOLD)

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            process.credit.release(await process.place(8 * HOLD), 8 * HOLD)
            await process.threads.run(_raise_to, cap=12 * HOLD)
            raised = owners.entry()
            hold = await process.place(4 * HOLD, key=raised)
            with pytest.raises(BudgetExhausted):
                await process.place(1, key=raised)
            return hold.nano, len(process.credit._budgets.all())

    def _raise_to(*, cap: int) -> None:
        owners.market.key.budget_cap_nano = cap
        owners.market.key.save()

    assert run(scenario) == (4 * HOLD, 3)


# bifrost#2370: the smallest charge counts
def test_a_charge_of_one_nano_counts(tmp_path):
    owners = Owners(key=3, project=50, organization=50, credit=50)

    async def scenario():
        async with running(Process(tmp_path, goods=owners.goods)) as (process,):
            for _ in range(3):
                process.credit.release(await process.place(1), 1)
            with pytest.raises(BudgetExhausted) as refusal:
                await process.place(1)
            return refusal.value.message

    assert "The daily budget of this key, 0.000000003 USD, has 0 USD left" in run(scenario)


# codegraff#269: who only waits for his own running requests is not told to pay
def test_held_credit_is_not_called_exhausted_and_asks_for_no_payment(tmp_path):
    market = Market(paid_nano=5 * HOLD, lease_nano=0)

    async def scenario():
        async with running(Process(tmp_path, goods=Goods(market))) as (process,):
            await process.place(4 * HOLD)
            with pytest.raises(CreditHeld) as refusal:
                await process.place(2 * HOLD)
            return refusal.value

    refusal = run(scenario)

    assert refusal.code == "credit_held"
    assert "Of your credit of 0.005 USD, 0.004 USD is held by requests that still run" in refusal.message
    assert "Retry" in refusal.fix
    assert "credit" not in refusal.fix


def test_who_lacks_a_budget_calls_in_that_budget_and_nothing_else(tmp_path):
    owners = Owners(key=10 * HOLD, project=1_000 * HOLD, organization=1_000 * HOLD)

    async def scenario():
        parts = [Process(tmp_path, index=number, goods=owners.goods, is_listening=True) for number in range(2)]
        async with running(*parts):
            idle, asking = parts
            idle.credit.release(await idle.place(10 * HOLD), 0)
            (hold,) = [await asking.place(10 * HOLD)]
            left = {purse._source.terms.period: purse.pool.idle for purse in idle.credit._budgets.all()}
            return hold.nano, left

    nano, left = run(scenario)

    assert nano == 10 * HOLD
    assert left["day"] == 0
    assert left["week"] >= 10 * HOLD
