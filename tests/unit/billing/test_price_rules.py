"""Which price and share hold, how long a node stood ready, what a house node costs: rules without a database."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules import availability, previews, price_choice, shares
from portal.billing.rules.availability import GpuPay, Move
from portal.billing.rules.previews import Sums
from portal.billing.rules.rating import Terms, charge_nano
from portal.billing.rules.shares import Share, Source, Step
from portal.core.money import split_share
from portal.nodes.rules.house_costs import Rate, cost_nano

HOUR = datetime(2026, 11, 2, 10, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PRICES = st.builds(
    Terms,
    prompt_nano_per_mtok=st.integers(0, 10**12),
    cached_nano_per_mtok=st.integers(0, 10**12),
    completion_nano_per_mtok=st.integers(0, 10**12),
    request_nano=st.integers(0, 10**9),
)


@dataclass(frozen=True)
class Version:
    """A price with its moments."""

    name: str
    effective_from: float
    effective_until: float = inf
    prompt_nano_per_mtok: int = 0
    cached_nano_per_mtok: int = 0
    completion_nano_per_mtok: int = 0
    request_nano: int = 0


FIRST, SECOND, THIRD = Version("first", 10.0), Version("second", 20.0, 25.0), Version("third", 30.0)


@pytest.mark.parametrize(
    ("at", "name"),
    [(9.999, None), (10.0, "first"), (19.999, "first"), (20.0, "second"), (24.999, "second"), (25.0, None)],
)
def test_the_newest_that_has_begun_holds_until_it_ends(at, name):
    found = price_choice.in_force((FIRST, SECOND, THIRD), at=at)

    assert (found.name if found else None) == name


def test_a_private_node_goes_before_an_agreement_and_that_before_the_public_price():
    assert price_choice.payable(public=FIRST) is FIRST
    assert price_choice.payable(public=FIRST, own=SECOND) is SECOND
    assert price_choice.payable(public=FIRST, own=SECOND, node=THIRD) is THIRD


@pytest.mark.parametrize(
    ("own", "tier", "expected"),
    [
        (9000, 8500, Share(9000, Source.OWN)),
        (None, 8500, Share(8500, Source.TIER)),
        (None, None, Share(8000, Source.DEFAULT)),
        (0, 8500, Share(0, Source.OWN)),
    ],
)
def test_own_share_before_tier_before_default(own, tier, expected):
    assert shares.share_of(own=own, tier=tier, default=8000) == expected


@dataclass(frozen=True)
class StoredShare:
    share_bps: int | None
    effective_from: datetime


def test_a_providers_history_tells_each_step_and_why():
    at = [HOUR + timedelta(days=day) for day in range(6)]

    steps = shares.history(
        default=[StoredShare(8000, at[0])],
        moves=[(at[1], "verified"), (at[4], "")],
        tiers={"verified": [StoredShare(8500, at[0])]},
        own=[StoredShare(9000, at[2]), StoredShare(None, at[3])],
        fallback_bps=7000,
    )

    assert steps == [
        Step(at[0], Share(8000, Source.DEFAULT), ""),
        Step(at[1], Share(8500, Source.TIER), "verified"),
        Step(at[2], Share(9000, Source.OWN), "verified"),
        Step(at[3], Share(8500, Source.TIER), "verified"),
        Step(at[4], Share(8000, Source.DEFAULT), ""),
    ]


@pytest.mark.parametrize(
    ("moves", "minutes"),
    [
        ([], 0),
        ([Move(HOUR - MINUTE, "serving", "serving")], 60),
        ([Move(HOUR, "ready", "no_deployment")], 60),
        ([Move(HOUR, "ready", "provider_suspended")], 0),
        ([Move(HOUR, "serving", "serving"), Move(HOUR + 10 * MINUTE, "offline", "heartbeat_lost")], 10),
        ([Move(HOUR - MINUTE, "offline", "heartbeat_lost"), Move(HOUR + 45 * MINUTE, "serving", "serving")], 15),
        ([Move(HOUR + 59 * MINUTE + timedelta(seconds=1), "serving", "serving")], 0),
        ([Move(HOUR, "degraded", "gpu_fault"), Move(HOUR + 30 * MINUTE, "draining", "drain_requested")], 0),
    ],
)
def test_only_minutes_in_which_work_could_come_count(moves, minutes):
    assert availability.minutes(moves, hour=HOUR) == minutes


@given(
    st.lists(
        st.tuples(st.integers(-7200, 7200), st.sampled_from(["serving", "ready", "offline", "draining"])), max_size=20
    )
)
def test_an_hour_never_has_more_than_its_minutes(steps):
    moves = [Move(HOUR + timedelta(seconds=at), state, "") for at, state in sorted(steps)]

    assert 0 <= availability.minutes(moves, hour=HOUR) <= 60


def test_pay_is_minutes_times_each_gpus_rate():
    assert availability.pay_nano([GpuPay("a", 400_000), GpuPay("b", 100_000)], minutes=50) == 25_000_000
    assert availability.rate_of("RTX 4090", rates={"": 5, "RTX 4090": 0}) == 0
    assert availability.rate_of("H200 SXM", rates={"": 5, "RTX 4090": 0}) == 5
    assert availability.rate_of(None, rates={"RTX 4090": 7}) == 0
    with pytest.raises(ValueError, match="61 minutes"):
        availability.pay_nano([], minutes=61)


def test_a_house_node_costs_by_the_rate_of_each_moment():
    rates = [Rate(HOUR, 1_200_000_000), Rate(HOUR + 90 * MINUTE, 600_000_000)]

    assert cost_nano(rates, start=HOUR - timedelta(days=1), end=HOUR) == 0
    assert cost_nano(rates, start=HOUR, end=HOUR + 2 * timedelta(hours=1)) == 1_800_000_000 + 300_000_000
    assert cost_nano([Rate(HOUR, 1), Rate(HOUR, 3_600_000_000)], start=HOUR, end=HOUR + MINUTE) == 60_000_000


@given(
    st.lists(st.tuples(st.integers(0, 100_000), st.integers(0, 10**10)), max_size=6),
    st.integers(0, 100_000),
)
def test_a_day_in_two_parts_costs_what_it_costs_whole(rates, cut):
    dated = [Rate(HOUR + timedelta(seconds=at), nano) for at, nano in sorted(rates, key=lambda rate: rate[0])]
    middle, end = HOUR + timedelta(seconds=cut), HOUR + timedelta(seconds=100_000)

    apart = cost_nano(dated, start=HOUR, end=middle) + cost_nano(dated, start=middle, end=end)

    assert abs(apart - cost_nano(dated, start=HOUR, end=end)) <= 1


@st.composite
def requests(draw):
    prompt = draw(st.integers(1, 100_000))
    return {"prompt": prompt, "cached": draw(st.integers(0, prompt)), "completion": draw(st.integers(0, 100_000))}


@given(PRICES, st.lists(requests(), min_size=1, max_size=50), st.integers(0, 10_000))
def test_a_preview_from_sums_is_within_its_bound_of_rating_each_request_again(terms, used, share_bps):
    charges = [charge_nano(price=terms, **each) for each in used]
    earned = sum(split_share(charge, share_bps)[0] for charge in charges)
    sums = Sums(len(used), *(sum(each[name] for each in used) for name in ("prompt", "cached", "completion")))

    charge = previews.charged(sums, terms)
    share = previews.earned(charge, requests=len(used), share_bps=share_bps)

    assert abs(charge.nano - sum(charges)) <= charge.bound_nano
    assert abs(share.nano - earned) <= share.bound_nano
    if len(used) == 1:
        assert charge.bound_nano == 0


@given(PRICES, requests(), st.integers(1, 10**9))
def test_a_dearer_price_never_charges_less(terms, used, more):
    dearer = Terms(
        terms.prompt_nano_per_mtok + more,
        terms.cached_nano_per_mtok,
        terms.completion_nano_per_mtok + more,
        terms.request_nano,
    )

    assert charge_nano(price=dearer, **used) >= charge_nano(price=terms, **used)
