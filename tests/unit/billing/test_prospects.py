"""What a machine would earn: a sum whose every step is an integer and can be done by hand."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from portal.billing.rules.prospects import Assumptions, Option, electricity_nano, fill, gpu_milliwatts, prospect
from portal.billing.rules.rating import Terms

PRICE = Terms(
    prompt_nano_per_mtok=100_000_000, cached_nano_per_mtok=10_000_000, completion_nano_per_mtok=400_000_000,
    request_nano=7,
)  # fmt: skip
GIVEN = Assumptions(kwh_nano=300_000_000, utilization_percent=50, prompt_tokens=1000, completion_tokens=250)


def test_the_sum_by_hand():
    found = prospect(requests_a_second=0.5, price=PRICE, share_bps=8000, gpu_watts=450, given=GIVEN)

    assert found.requests == 900  # 0.5 a second, half of the 3,600 seconds
    assert (found.prompt_tokens, found.completion_tokens) == (900_000, 225_000)
    assert found.request_nano == 7 + 100_000 + 100_000
    assert found.earned_request_nano == 160_005  # 80 % of 200,007 is 160,005.6: rounded down
    assert found.earned_nano == 900 * 160_005
    assert found.milliwatts == 247_500  # 450 W for half of the time, 45 W for the other
    assert found.electricity_nano == 74_250_000  # 0.2475 kWh at 0.30
    assert found.net_nano == 144_004_500 - 74_250_000
    assert found.net_month_nano == 730 * found.net_nano


def test_an_idle_gpu_draws_a_tenth():
    assert gpu_milliwatts(watts=450, utilization_percent=0) == 45_000
    assert gpu_milliwatts(watts=450, utilization_percent=100) == 450_000


def test_electricity_is_rounded_half_up():
    assert electricity_nano(milliwatts=1, kwh_nano=499_999) == 0
    assert electricity_nano(milliwatts=1, kwh_nano=500_000) == 1


def options(*given: tuple[str, str, int, int]) -> list[Option]:
    return [Option(*one) for one in given]


@pytest.mark.parametrize(
    ("offered", "gpus", "chosen"),
    [
        (options(("a", "4090", 1, 10), ("b", "4090", 1, 8), ("c", "4090", 1, 5)), {"4090": 2}, [0, 1]),
        # 20 a GPU before 15 a GPU
        (options(("a", "4090", 2, 30), ("b", "4090", 1, 20), ("c", "4090", 1, 5)), {"4090": 3}, [1, 0]),
        (options(("a", "4090", 4, 100), ("b", "4090", 1, 1)), {"4090": 3}, [1]),
        # nothing is run at a loss
        (options(("a", "4090", 1, 10), ("b", "4090", 1, -1), ("c", "4090", 1, 0)), {"4090": 3}, [0]),
        # one card of each kind: the second model goes to the other one
        (
            options(("a", "5090", 1, 20), ("a", "3090", 1, 9), ("b", "5090", 1, 15), ("b", "3090", 1, 8)),
            {"3090": 1, "5090": 1},
            [0, 3],
        ),
        ([], {"4090": 3}, []),
    ],
)
def test_the_best_for_each_gpu_first_and_a_model_once(offered: list[Option], gpus: dict[str, int], chosen: list[int]):
    assert fill(offered, gpus=gpus) == chosen


@settings(deadline=None)
@given(
    offered=st.lists(
        st.builds(
            Option, st.sampled_from("abcd"), st.sampled_from(["3090", "4090"]), st.sampled_from([1, 2, 4, 8]),
            st.integers(-100, 100),
        ),
        max_size=12,
    ),
    gpus=st.dictionaries(st.sampled_from(["3090", "4090"]), st.integers(1, 16)),
)  # fmt: skip
def test_no_gpu_and_no_model_is_used_twice(offered: list[Option], gpus: dict[str, int]):
    chosen = [offered[at] for at in fill(offered, gpus=gpus)]

    assert len({one.model for one in chosen}) == len(chosen)
    for kind in ("3090", "4090"):
        assert sum(one.gpus for one in chosen if one.kind == kind) <= gpus.get(kind, 0)


@settings(deadline=None)
@given(
    a_second=st.floats(0, 1000),
    share=st.integers(0, 10_000),
    watts=st.integers(0, 10_000),
    busy=st.integers(1, 100),
)
def test_the_provider_never_gets_more_than_customers_pay(a_second: float, share: int, watts: int, busy: int):
    given_ = Assumptions(kwh_nano=1, utilization_percent=busy)

    found = prospect(requests_a_second=a_second, price=PRICE, share_bps=share, gpu_watts=watts, given=given_)

    assert 0 <= found.earned_nano <= found.requests * found.request_nano
    assert found.milliwatts <= watts * 1000
