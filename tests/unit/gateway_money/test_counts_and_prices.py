"""What public reports got wrong about counts and prices, with the right value; each thread is named above its test."""

from dataclasses import replace

import pytest

from portal.billing.rules import rating, settling
from portal.billing.rules.settling import Agreed, Observed
from portal.gateway import models_api
from portal.gateway.contracts import PriceEntry
from portal.gateway.errors import ApiError
from tests.factories import gateway as make

PRICE = PriceEntry(
    id=1,
    version=1,
    prompt_nano_per_mtok=200_000_000,
    cached_nano_per_mtok=50_000_000,
    completion_nano_per_mtok=800_000_000,
    request_nano=0,
    effective_from=0.0,
)
AGREED = Agreed(
    price=PRICE, share_bps=8_000, hold_nano=10_000_000, prompt_bound=5_000, output_bound=2_000, has_tolerance=True
)
SEEN = Observed(
    claimed_prompt=1_000,
    claimed_cached=0,
    claimed_completion=500,
    counted_prompt=1_000,
    counted_completion=500,
    end_tokens=1,
    delivered_bytes=2_500,
)


# litellm#28009, llmgateway#1857, aider#5516
def test_cached_tokens_are_a_part_of_the_prompt_and_priced_once():
    bill = settling.settle(outcome="completed", agreed=AGREED, observed=replace(SEEN, claimed_cached=400))

    assert (bill.prompt_tokens, bill.cached_tokens) == (1_000, 400)
    assert bill.charge_nano == 600 * 200 + 400 * 50 + 500 * 800


# vllm-ascend#9030, #9911
def test_unknown_cached_tokens_are_none_and_cost_the_full_price():
    unknown = settling.settle(outcome="completed", agreed=AGREED, observed=replace(SEEN, claimed_cached=None))
    none = settling.settle(outcome="completed", agreed=AGREED, observed=SEEN)

    assert unknown.charge_nano == none.charge_nano == 1_000 * 200 + 500 * 800


# litellm#6488, #12970: counted again locally, prompts were off by ten to a hundred times, and billed so
@pytest.mark.parametrize("claimed", [990, 1_000, 1_010])
def test_our_count_bounds_the_claim_and_is_not_the_invoice(claimed):
    bill = settling.settle(outcome="completed", agreed=AGREED, observed=replace(SEEN, claimed_prompt=claimed))

    assert (bill.prompt_tokens, bill.token_source) == (claimed, "claim")


# macprovider#255, #262, #278, #511
def test_an_honest_nodes_end_token_is_billed_and_an_estimate_never_overrules_it():
    bill = settling.settle(
        outcome="completed", agreed=replace(AGREED, has_tolerance=False), observed=replace(SEEN, claimed_completion=501)
    )

    assert (bill.completion_tokens, bill.token_source) == (501, "claim")


# d-inference#30: a claim of a hundred thousand tokens for two
def test_a_claim_of_a_hundred_thousand_tokens_for_two_pays_two():
    seen = replace(SEEN, claimed_completion=100_000, counted_completion=2, delivered_bytes=10)
    bill = settling.settle(outcome="completed", agreed=AGREED, observed=seen)

    assert (bill.completion_tokens, bill.token_source) == (3, "count")


# gonka#1251: what exceeded the escrow was refunded from the pool
def test_nothing_exceeds_the_hold_and_the_provider_shares_what_was_charged():
    bill = settling.settle(outcome="completed", agreed=replace(AGREED, hold_nano=300_001), observed=SEEN)

    assert bill.charge_nano == 300_001
    assert (bill.provider_nano, bill.platform_nano) == (240_000, 60_001)


# litellm#37734: partial answers were priced at zero, their prompt and cached tokens lost
@pytest.mark.parametrize("outcome", ["customer_abort", "credit_end", "platform_crash"])
def test_a_partial_answer_is_priced_by_all_its_counts(outcome):
    seen = replace(SEEN, claimed_cached=400, claimed_completion=120, counted_completion=120)
    bill = settling.settle(outcome=outcome, agreed=AGREED, observed=seen)

    assert (bill.prompt_tokens, bill.cached_tokens, bill.completion_tokens) == (1_000, 400, 120)
    assert bill.charge_nano == rating.charge_nano(price=PRICE, prompt=1_000, cached=400, completion=120)


# new-api#5288: the words of an error were counted as output and charged
@pytest.mark.parametrize("outcome", ["node_fault", "node_timeout", "node_busy", "empty", "customer_error"])
def test_what_ends_in_an_error_is_free_whatever_was_claimed(outcome):
    assert settling.settle(outcome=outcome, agreed=AGREED, observed=SEEN) == settling.FREE


# theopenco/llmgateway#3331: leaving before the usage came was free
def test_leaving_before_anything_came_pays_the_prompt():
    seen = replace(SEEN, claimed_completion=None, counted_completion=0, delivered_bytes=0)
    bill = settling.settle(outcome="customer_abort", agreed=AGREED, observed=seen)

    assert (bill.prompt_tokens, bill.completion_tokens, bill.charge_nano) == (1_000, 0, 200_000)


# litellm#42161, #38069, #38578: an alias or a dated name was priced at zero, or by its pattern
@pytest.mark.parametrize("name", ["acme/chat-8b-2026-11-30", "ACME/chat-8b", "chat-8b"])
def test_a_name_is_priced_only_where_the_catalogue_has_it(name):
    snapshot = make.snapshot()

    with pytest.raises(ApiError) as refused:
        models_api.find(name, snapshot, now=0.0)

    assert (refused.value.status, refused.value.code) == (404, "model_not_found")


def test_a_model_without_a_price_is_refused_and_never_free():
    snapshot = make.snapshot(model=make.model_entry(prices=()))

    with pytest.raises(ApiError) as refused:
        models_api.find("acme/chat-8b", snapshot, now=0.0)

    assert (refused.value.status, refused.value.code) == (404, "model_not_found")
