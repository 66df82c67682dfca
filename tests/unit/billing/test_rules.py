"""The room's small rules: accounts, periods, parties, maturity, batches."""

from datetime import UTC, date, datetime, timedelta, timezone
from uuid import UUID

import pytest

from portal.billing.rules import accounts, journal, maturity, parties, periods
from portal.billing.rules.accounts import KINDS, Kind
from portal.billing.rules.batches import Line, gather
from portal.billing.rules.maturity import CustomerFacts
from portal.billing.rules.parties import Bond, Earner, Payer, Withheld
from portal.billing.rules.periods import month_of

NOON = datetime(2026, 11, 2, 12, tzinfo=UTC)
STRANGER = Earner(organization_id=2, is_house=False)


def test_every_kind_has_its_rule():
    assert set(KINDS) == set(Kind)
    assert all(KINDS[kind].has_floor == KINDS[kind].keeps_totals == KINDS[kind].is_owned for kind in Kind)
    assert {kind for kind in Kind if KINDS[kind].is_owned} == {*accounts.CUSTOMER_KINDS, *accounts.PROVIDER_KINDS}


def test_a_code_has_an_owner_where_one_belongs():
    assert accounts.code("customer_credit", "org_a") == "customer_credit:org_a"
    assert accounts.code("stripe_balance") == "stripe_balance"
    with pytest.raises(ValueError, match="needs an owner"):
        accounts.code("customer_credit")
    with pytest.raises(ValueError, match="has no owner"):
        accounts.code("stripe_balance", "org_a")
    with pytest.raises(ValueError, match="not a valid Kind"):
        accounts.code("pocket")


def test_a_balance_is_read_on_its_normal_side():
    assert accounts.signed_balance(is_debit_normal=True, debits=7, credits_=3) == 4
    assert accounts.signed_balance(is_debit_normal=False, debits=7, credits_=3) == -4


def test_a_content_hash_tells_legs_apart():
    one = journal.content_hash(kind="k", source_type="t", source_id="1", legs=[("a", "b", 1, "usd")])

    assert one == journal.content_hash(kind="k", source_type="t", source_id="1", legs=[("a", "b", 1, "usd")])
    assert one != journal.content_hash(kind="k", source_type="t", source_id="1", legs=[("b", "a", 1, "usd")])
    assert one != journal.content_hash(kind="k", source_type="t1", source_id="", legs=[("a", "b", 1, "usd")])


@pytest.mark.parametrize(
    ("at", "month"),
    [
        (datetime(2026, 11, 1, tzinfo=UTC), "2026-11"),
        (datetime(2026, 11, 30, 23, 59, 59, 999_999, tzinfo=UTC), "2026-11"),
        (datetime(2026, 12, 1, tzinfo=UTC), "2026-12"),
        (datetime(2026, 12, 31, 23, 59, tzinfo=UTC), "2026-12"),
        (datetime(2026, 12, 1, 0, 30, tzinfo=timezone(timedelta(hours=1))), "2026-11"),
        (datetime(2026, 3, 29, 2, 30, tzinfo=UTC), "2026-03"),
    ],
)
def test_months_are_utc_and_half_open(at, month):
    period = month_of(at)

    assert str(period) == month
    assert at in period
    assert period.ends_at not in period
    assert period.starts_at in period


def test_months_follow_one_another():
    january = month_of(datetime(2027, 1, 15, tzinfo=UTC))

    assert str(periods.month_before(january)) == "2026-12"
    assert periods.month_before(january).ends_at == january.starts_at


def test_a_naive_time_has_no_month():
    with pytest.raises(ValueError, match="aware"):
        month_of(datetime(2026, 11, 1))  # noqa: DTZ001  that is the point


def test_a_month_may_close_a_day_after_its_end():
    november = month_of(NOON)

    assert not periods.may_close(november, now=november.ends_at + periods.CLOSING_DELAY - timedelta(microseconds=1))
    assert periods.may_close(november, now=november.ends_at + periods.CLOSING_DELAY)


def test_a_stranger_earns_his_share():
    split = parties.split(charge_nano=1000, provider_nano=800, payer=Payer(organization_id=1), earner=STRANGER)

    assert (split.provider_nano, split.platform_nano, split.withheld) == (800, 200, Withheld.NOTHING)


@pytest.mark.parametrize(
    ("earner", "reason"),
    [
        (Earner(organization_id=1, is_house=False), Withheld.RELATED),
        (Earner(organization_id=1, is_house=True), Withheld.HOUSE),
        (Earner(organization_id=2, is_house=True), Withheld.HOUSE),
    ],
)
def test_relations_and_the_house_earn_nothing(earner, reason):
    split = parties.split(charge_nano=1000, provider_nano=800, payer=Payer(organization_id=1), earner=earner)

    assert (split.provider_nano, split.platform_nano, split.withheld) == (0, 1000, reason)


@pytest.mark.parametrize("share", [-1, 1001])
def test_a_share_lies_within_its_charge(share):
    with pytest.raises(ValueError, match="does not fit"):
        parties.split(charge_nano=1000, provider_nano=share, payer=Payer(organization_id=1), earner=STRANGER)


@pytest.mark.parametrize(
    ("bond", "has_promo", "reason"),
    [
        (Bond.RELATED, False, Withheld.RELATED),
        (Bond.RELATED, True, Withheld.RELATED),
        (Bond.LINKED, True, Withheld.LINKED_PROMO),
    ],
)
def test_one_party_never_earns_and_promotional_credit_not_even_where_a_link_proves_nothing(bond, has_promo, reason):
    payer = Payer(organization_id=1, bond=bond, has_promo=has_promo)

    split = parties.split(charge_nano=1000, provider_nano=800, payer=payer, earner=STRANGER)

    assert (split.provider_nano, split.platform_nano, split.withheld) == (0, 1000, reason)


def test_a_link_that_proves_nothing_lets_paid_credit_earn():
    payer = Payer(organization_id=1, bond=Bond.LINKED)

    assert parties.split(charge_nano=1000, provider_nano=800, payer=payer, earner=STRANGER).provider_nano == 800


@pytest.mark.parametrize(
    ("facts", "days"),
    [
        (CustomerFacts(is_promo=False, hold_days=0), 7),
        (CustomerFacts(is_promo=False, hold_days=7), 7),
        (CustomerFacts(is_promo=False, hold_days=60), 60),
        (CustomerFacts(is_promo=True, hold_days=60), 7),
    ],
)
def test_young_payments_make_later_money(facts, days):
    assert maturity.matures_at(delivered_at=NOON, hold_days=7, facts=facts) == NOON + timedelta(days=days)


def line(number, *, payer=1, provider=1, closed_at=NOON):
    return Line(
        key=(date(2026, 11, 2), UUID(int=number), 1),
        payers=((payer, number),),
        organization_id=payer,
        provider_id=provider,
        charge_nano=number,
        split=parties.split(charge_nano=number, provider_nano=0, payer=Payer(organization_id=1), earner=STRANGER),
        closed_at=closed_at,
    )


def test_lines_are_gathered_by_payer_provider_and_month():
    lines = [line(3), line(1), line(2, payer=2), line(4, provider=2), line(5, closed_at=NOON - timedelta(days=2))]

    batches = gather(lines)

    assert [[each.charge_nano for each in batch.lines] for batch in batches] == [[5], [1, 3], [4], [2]]
    assert (batches[1].charge_nano, batches[1].delivered_at, batches[1].organization_id) == (4, NOON, 1)


def test_a_batch_is_named_by_its_records_in_any_order():
    first, second = gather([line(1), line(2)]), gather([line(2), line(1)])

    assert first[0].digest == second[0].digest
    assert first[0].digest != gather([line(1)])[0].digest
