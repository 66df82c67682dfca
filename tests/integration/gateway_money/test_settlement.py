"""What is delivered is charged once and paid once; what is not charged is not paid."""

import pytest
from tokenizers import Tokenizer

from portal.billing.models import CreditLease
from portal.billing.services import posting
from portal.core import clock
from portal.metering.models import Spool, SpoolState, UsageRecord
from portal.metering.services.spool_files import AlreadyClosed, list_spools
from tests.factories.billing import Market
from tests.integration.gateway_money.rig import DEMO, Goods, Process, credit_account, deliver, run, running

pytestmark = pytest.mark.django_db(transaction=True)

HOLD = 1_000_000
TEXT = "The sea is deep and blue."


@pytest.fixture
def goods() -> Goods:
    return Goods(Market(lease_nano=0))


def _served(goods: Goods, tmp_path, scenario):
    """Run the scenario in one process, let it stop cleanly, and return what the scenario returned."""

    async def whole():
        async with running(Process(tmp_path, goods=goods)) as (process,):
            return await scenario(process)

    return run(whole)


def _count(text: str) -> int:
    tokenizer = Tokenizer.from_file(str(DEMO / "tokenizer.json"))
    return len(tokenizer.encode(text, add_special_tokens=False).ids)


def test_a_whole_answer_is_charged_shipped_and_its_lease_returned(goods, tmp_path):
    async def scenario(process: Process):
        return await process.serve(prompt=21, cached=4, completion=10)

    settled = _served(goods, tmp_path, scenario)

    record = UsageRecord.objects.get()
    assert (record.prompt_tokens, record.cached_tokens) == (settled.prompt_tokens, 4)
    assert record.charge_nano == settled.charge_nano > 0
    assert record.provider_nano == settled.charge_nano * 8000 // 10_000
    assert (record.outcome, record.node_class, record.routing) == ("completed", "community", {"by": "only"})
    assert Spool.objects.get(public_id=record.spool_id).state == SpoolState.DRAINED
    assert list_spools(tmp_path) == []
    assert credit_account(goods.market).held == settled.charge_nano
    posting.post_usage(now=clock.now(), limit=10)
    assert credit_account(goods.market).held == 0


def test_an_honest_claim_is_billed_as_claimed(goods, tmp_path):
    async def scenario(process: Process):
        body = {"messages": [{"role": "user", "content": "Tell me of the sea."}]}
        prompt = await process.counters.prompt_tokens(goods.model, body)
        completion = _count(TEXT) + 1
        return prompt, completion, await process.serve(text=TEXT, prompt=prompt, cached=0, completion=completion)

    prompt, completion, settled = _served(goods, tmp_path, scenario)

    assert (settled.prompt_tokens, settled.completion_tokens) == (prompt, completion)
    assert settled.token_source == "claim"


def test_an_inflated_claim_is_cut_to_our_count(goods, tmp_path):
    async def scenario(process: Process):
        return _count(TEXT), await process.serve(text=TEXT, prompt=10**12, cached=0, completion=100_000)

    counted, settled = _served(goods, tmp_path, scenario)

    record = UsageRecord.objects.get()
    assert settled.completion_tokens == counted + goods.model.end_tokens
    assert settled.token_source == "count"
    assert record.claimed_prompt_tokens == 2**31 - 1
    assert record.prompt_tokens == record.counted_prompt_tokens


def test_without_a_claim_our_count_is_billed(goods, tmp_path):
    async def scenario(process: Process):
        return _count(TEXT), await process.serve(text=TEXT)

    counted, settled = _served(goods, tmp_path, scenario)

    assert (settled.completion_tokens, settled.token_source) == (counted, "count")
    assert settled.cached_tokens == 0


def test_without_a_tokenizer_bytes_bound_the_claim(goods, tmp_path):
    async def whole():
        async with running(Process(tmp_path, goods=goods, read_artefact=lambda _sha256: None)) as (process,):
            return await process.serve(text=TEXT, prompt=10_000, cached=0, completion=10_000)

    settled = run(whole)

    assert settled.completion_tokens == len(TEXT)
    assert settled.prompt_tokens == 200
    assert settled.token_source == "bound"


def test_nothing_costs_more_than_its_hold(goods, tmp_path):
    async def scenario(process: Process):
        return await process.serve(nano=100, text=TEXT * 20)

    assert _served(goods, tmp_path, scenario).charge_nano == 100


@pytest.mark.parametrize("outcome", ["node_fault", "node_timeout", "node_busy", "empty", "customer_error"])
def test_a_failed_attempt_costs_nothing_and_earns_nothing(goods, tmp_path, outcome):
    async def scenario(process: Process):
        attempt = await process.open(await process.place(HOLD))
        deliver(attempt, TEXT, prompt=20, completion=10)
        return await process.settlement.close(attempt, outcome=outcome, error_code="engine_died")

    settled = _served(goods, tmp_path, scenario)

    record = UsageRecord.objects.get()
    assert (settled.charge_nano, settled.provider_nano, record.token_source) == (0, 0, "none")
    assert (record.outcome, record.error_code, record.claimed_completion_tokens) == (outcome, "engine_died", 10)
    assert credit_account(goods.market).held == 0


def test_an_answer_without_text_is_empty_whatever_it_says(goods, tmp_path):
    async def scenario(process: Process):
        attempt = await process.open(await process.place(HOLD))
        deliver(attempt, "", prompt=20, completion=500)
        return await process.settlement.close(attempt, outcome="completed")

    settled = _served(goods, tmp_path, scenario)

    assert (settled.outcome, settled.charge_nano) == ("empty", 0)


def test_an_abort_pays_the_prompt_and_what_was_delivered(goods, tmp_path):
    async def scenario(process: Process):
        silent = await process.open(await process.place(HOLD))
        before = await process.settlement.close(silent, outcome="customer_abort")
        attempt = await process.open(await process.place(HOLD))
        deliver(attempt, TEXT, finished=0, prompt=10**6, completion=10**6)
        return _count(TEXT), before, await process.settlement.close(attempt, outcome="customer_abort")

    counted, before, after = _served(goods, tmp_path, scenario)

    assert (before.completion_tokens, before.charge_nano > 0) == (0, True)
    assert (after.prompt_tokens, after.completion_tokens) == (before.prompt_tokens, counted)


def test_a_crash_of_ours_before_anything_was_delivered_is_free(goods, tmp_path):
    async def scenario(process: Process):
        attempt = await process.open(await process.place(HOLD))
        return await process.settlement.close(attempt, outcome="platform_crash", error_code="internal")

    assert _served(goods, tmp_path, scenario).charge_nano == 0


def test_failover_keeps_the_hold_and_charges_the_last_attempt_only(goods, tmp_path):
    async def scenario(process: Process):
        hold = await process.place(HOLD)
        facts = process.facts(nano=HOLD)
        first = await process.open(hold, facts=facts)
        await process.settlement.close(first, outcome="node_fault", error_code="engine_died", keep_hold=True)
        held_between = process.credit.held_nano(goods.key.organization_id)
        second = await process.open(hold, number=2, facts=facts)
        deliver(second, TEXT)
        settled = await process.settlement.close(second, outcome="completed", keep_hold=True)
        return held_between, process.credit.held_nano(goods.key.organization_id), settled

    between, after, settled = _served(goods, tmp_path, scenario)

    assert (between, after) == (HOLD, 0)
    assert list(UsageRecord.objects.order_by("attempt").values_list("attempt", "charge_nano")) == [
        (1, 0),
        (2, settled.charge_nano),
    ]


def test_an_attempt_is_closed_once(goods, tmp_path):
    async def scenario(process: Process):
        attempt = await process.open(await process.place(HOLD))
        deliver(attempt, TEXT)
        await process.settlement.close(attempt, outcome="completed")
        with pytest.raises(AlreadyClosed):
            await process.settlement.close(attempt, outcome="customer_abort")

    _served(goods, tmp_path, scenario)

    assert UsageRecord.objects.count() == 1


def test_several_choices_are_counted_each_by_itself(goods, tmp_path):
    async def scenario(process: Process):
        attempt = await process.open(await process.place(HOLD))
        for left, right in zip("The sea is deep", "A ship comes in", strict=True):
            attempt.deliver(left, choice=0)
            attempt.deliver(right, choice=1)
        attempt.finished_choices = 2
        expected = _count("The sea is deep") + _count("A ship comes in")
        return expected, await process.settlement.close(attempt, outcome="completed")

    expected, settled = _served(goods, tmp_path, scenario)

    assert settled.completion_tokens == expected


def test_a_node_without_tolerance_gets_no_percent_more(goods, tmp_path):
    text = TEXT * 40

    async def scenario(process: Process):
        counted = _count(text)
        trusted = await process.serve(text=text, completion=counted * 2)
        goods.node = type(goods.node)(
            **{name: getattr(goods.node, name) for name in goods.node.__slots__ if name != "models_without_tolerance"},
            models_without_tolerance=frozenset({goods.model.id}),
        )
        return counted, trusted, await process.serve(text=text, completion=counted * 2)

    counted, trusted, distrusted = _served(goods, tmp_path, scenario)

    assert trusted.completion_tokens == counted + 1 + counted // 100
    assert distrusted.completion_tokens == counted + 1


def test_the_lease_is_returned_while_the_process_lives_once_it_is_unused(goods, tmp_path, monkeypatch):
    async def scenario(process: Process):
        await process.serve()
        await process.settlement.ship()
        purse = process.credit._credit[goods.key.organization_id]
        purse.taken_at -= 1_000
        await process.credit._credit_keeper.keep([purse])
        return len(purse.pool)

    assert _served(goods, tmp_path, scenario) == 0
    lease = CreditLease.objects.exclude(spool=goods.market.spool).get()
    assert lease.granted == UsageRecord.objects.get().charge_nano
