"""Money, rating and statements hold for any numbers."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.billing.rules import statements
from portal.billing.rules.parties import Bond, Earner, Payer, split
from portal.billing.rules.periods import month_before, month_of
from portal.billing.rules.rating import Terms, charge_nano, cost_lines
from portal.billing.rules.statements import Content, EntryLine, UsageLine
from portal.core import money

NANO = st.integers(min_value=-(2**62), max_value=2**62)
CHARGES = st.integers(min_value=0, max_value=2**62)
TOKENS = st.integers(min_value=0, max_value=2_000_000)
PRICES = st.builds(
    Terms,
    prompt_nano_per_mtok=st.integers(0, 10**13),
    cached_nano_per_mtok=st.integers(0, 10**13),
    completion_nano_per_mtok=st.integers(0, 10**13),
    request_nano=st.integers(0, 10**9),
)


@st.composite
def used(draw):
    prompt = draw(TOKENS)
    return {"prompt": prompt, "cached": draw(st.integers(0, prompt)), "completion": draw(TOKENS)}


@given(NANO)
def test_decimal_text_comes_back(nano):
    assert money.nano_from_text(money.decimal_text(nano)) == nano


@given(CHARGES, st.integers(0, money.BPS))
def test_a_split_returns_every_unit_it_was_given(charge, bps):
    provider, platform = money.split_share(charge, bps)

    assert provider + platform == charge
    assert provider >= 0
    assert platform >= 0
    assert provider * money.BPS <= charge * bps < (provider + 1) * money.BPS


@pytest.mark.parametrize("currency", ["usd", "jpy", "kwd", "isk", "vnd", "bhd"])
@given(minor=st.integers(0, 10**12), dust=st.integers(0, 10**9 - 1))
def test_minor_units_lose_nothing(currency, minor, dust):
    unit = money.nano_per_minor(currency)
    nano = money.nano_from_minor(minor, currency)

    assert money.minor_from_nano(nano, currency) == (minor, 0)
    assert money.minor_from_nano(nano + dust % unit, currency) == (minor, dust % unit)


@given(PRICES, used(), used())
def test_more_usage_never_costs_less(price, first, more):
    both = {name: first[name] + more[name] for name in first}

    assert charge_nano(price=price, **both) >= charge_nano(price=price, **first)


@given(PRICES, used(), used())
def test_rating_is_additive_but_for_its_one_rounding(price, first, second):
    both = {name: first[name] + second[name] for name in first}
    apart = charge_nano(price=price, **first) + charge_nano(price=price, **second) - price.request_nano

    assert abs(charge_nano(price=price, **both) - apart) <= 1


@given(PRICES, used())
def test_the_cost_lines_add_up_to_the_charge(price, usage):
    lines = cost_lines(price=price, **usage)
    millionths = sum(line.quantity * line.unit_nano * (money.MTOK if line.label == "request" else 1) for line in lines)

    assert (millionths + money.MTOK // 2) // money.MTOK == charge_nano(price=price, **usage)


PAYERS = st.builds(Payer, st.integers(1, 3), st.sampled_from(Bond), st.booleans())


@given(CHARGES, st.integers(0, money.BPS), PAYERS, st.builds(Earner, st.integers(1, 3), st.booleans()))
def test_who_gets_what_always_adds_up(charge, bps, payer, earner):
    granted = money.split_share(charge, bps)[0]

    shared = split(charge_nano=charge, provider_nano=granted, payer=payer, earner=earner)

    is_one_party = payer.organization_id == earner.organization_id or payer.bond == Bond.RELATED
    is_given_away = payer.bond == Bond.LINKED and payer.has_promo
    assert shared.provider_nano + shared.platform_nano == charge
    assert (shared.withheld == "") == (not earner.is_house and not is_one_party and not is_given_away)
    assert not shared.withheld or shared.provider_nano == 0


FIRST, LAST = datetime(2000, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001  hypothesis takes bounds without a zone


@given(st.datetimes(FIRST, LAST, timezones=st.timezones()))
def test_every_moment_is_in_exactly_one_month(at):
    period = month_of(at)

    assert at in period
    assert at not in month_before(period)
    assert month_of(period.ends_at).starts_at == period.ends_at
    assert month_of(period.ends_at - timedelta(microseconds=1)) == period
    assert period.starts_at.tzinfo is UTC


TEXT = st.text(max_size=12)
LINES = st.builds(
    UsageLine,
    model=TEXT,
    node=TEXT,
    requests=st.integers(1, 10**6),
    prompt_tokens=TOKENS,
    cached_tokens=TOKENS,
    completion_tokens=TOKENS,
    amount_nano=st.integers(0, 10**15),
)
ENTRIES = st.builds(EntryLine, at=TEXT, kind=TEXT, tx=TEXT, note=TEXT, amount_nano=st.integers(-(10**15), 10**15))


@given(
    st.sampled_from(["customer", "provider"]),
    st.integers(-(10**15), 10**15),
    st.lists(LINES, max_size=4),
    st.lists(ENTRIES, max_size=4),
    st.integers(-3, 3),
)
def test_a_statement_adds_up_exactly_when_its_lines_do(kind, opening, usage, entries, slip):
    sign = 1 if kind == "provider" else -1
    closing = opening + sum(e.amount_nano for e in entries) + sign * sum(u.amount_nano for u in usage)
    content = Content(kind, "p", "usd", "a", "b", opening, closing + slip, tuple(usage), tuple(entries))

    again = statements.from_json(statements.to_json(content))

    assert again == content
    assert again.gap_nano == -slip
    assert statements.digest(statements.to_json(again)) == statements.digest(statements.to_json(content))
