"""One rating, never above the hold, and a split that loses nothing."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules import rating, settling
from portal.billing.rules.rating import Terms
from portal.billing.rules.settling import FREE, Agreed, Observed
from portal.metering.rules.counting import Source

AGREED = Agreed(
    price=Terms(1_000_000_000, 250_000_000, 2_000_000_000),
    share_bps=8_000,
    hold_nano=10**9,
    prompt_bound=500,
    output_bound=300,
    has_tolerance=True,
)
SEEN = Observed(
    claimed_prompt=100,
    claimed_cached=40,
    claimed_completion=51,
    counted_prompt=100,
    counted_completion=50,
    end_tokens=1,
    delivered_bytes=220,
)
counts = st.none() | st.integers(0, 100_000)


def test_a_whole_answer():
    bill = settling.settle(outcome="completed", agreed=AGREED, observed=SEEN)

    assert (bill.prompt_tokens, bill.cached_tokens, bill.completion_tokens, bill.token_source) == (100, 40, 51, "claim")
    assert bill.charge_nano == 60 * 1_000 + 40 * 250 + 51 * 2_000
    assert bill.provider_nano == bill.charge_nano * 8 // 10


def test_an_unknown_cache_is_no_cache_and_a_claimed_one_is_at_most_the_prompt():
    unknown = settling.settle(outcome="completed", agreed=AGREED, observed=replace(SEEN, claimed_cached=None))
    huge = settling.settle(outcome="completed", agreed=AGREED, observed=replace(SEEN, claimed_cached=10**6))

    assert (unknown.cached_tokens, huge.cached_tokens) == (0, 100)


def test_what_is_not_charged_is_not_paid():
    assert settling.settle(outcome="node_fault", agreed=AGREED, observed=SEEN) == FREE


def test_the_worse_source_of_the_two_fields_is_named():
    seen = replace(SEEN, counted_prompt=None)

    assert settling.settle(outcome="completed", agreed=AGREED, observed=seen).token_source == "bound"
    assert settling.settle(outcome="platform_crash", agreed=AGREED, observed=SEEN, source=Source.MARK).token_source == (
        "mark"
    )


@given(
    claims=st.tuples(counts, counts, counts),
    counted=st.tuples(counts, counts),
    delivered=st.integers(0, 10**6),
    hold=st.integers(0, 10**9),
    share=st.integers(0, 10_000),
    outcome=st.sampled_from(["completed", "customer_abort", "credit_end", "platform_crash", "node_fault", "empty"]),
)
def test_whatever_a_node_claims_the_bill_is_sound(claims, counted, delivered, hold, share, outcome):
    agreed = replace(AGREED, hold_nano=hold, share_bps=share)
    seen = Observed(*claims, *counted, end_tokens=1, delivered_bytes=delivered)

    bill = settling.settle(outcome=outcome, agreed=agreed, observed=seen)

    assert bill.charge_nano == bill.provider_nano + bill.platform_nano
    assert 0 <= bill.provider_nano <= bill.charge_nano <= hold
    assert 0 <= bill.cached_tokens <= bill.prompt_tokens
    rated = rating.charge_nano(
        price=AGREED.price,
        prompt=bill.prompt_tokens,
        cached=bill.cached_tokens,
        completion=bill.completion_tokens,
    )
    assert bill.charge_nano == min(rated, hold)


# Too few cached tokens overcharge the customer: once a node is caught, what its cache must have held counts.
def test_a_node_that_hides_its_cache_is_billed_by_what_it_must_have_held():
    seen = replace(SEEN, claimed_cached=0, expected_cached=40)

    believed = settling.settle(outcome="completed", agreed=AGREED, observed=seen)
    caught = settling.settle(outcome="completed", agreed=replace(AGREED, trusts_cached=False), observed=seen)
    honest = settling.settle(
        outcome="completed", agreed=replace(AGREED, trusts_cached=False), observed=replace(seen, claimed_cached=48)
    )

    assert (believed.cached_tokens, caught.cached_tokens, honest.cached_tokens) == (0, 40, 48)
    assert caught.charge_nano < believed.charge_nano
