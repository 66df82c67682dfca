"""Posting usage: charge and pay never part, and each record is booked once."""

from datetime import UTC, datetime, timedelta

import pytest

from portal.billing.models import (
    BudgetWindow,
    EarningDay,
    EarningMaturity,
    LeaseState,
    LedgerTx,
    SpendDay,
    UnpostableUsage,
    UsagePosting,
)
from portal.billing.rules.accounts import Kind
from portal.billing.rules.leasing import Ask
from portal.billing.selectors import balances
from portal.billing.services import budgets, leases, ledger, posting, reconcile
from portal.metering.models import Reader, UsageQueue
from tests.factories.billing import DELIVERED, Market, ServingNodeFactory, budget_of, house_market

pytestmark = pytest.mark.django_db
LATER = DELIVERED + timedelta(minutes=1)
CHARGE = 600_000  # 1,000 prompt and 500 completion tokens at the market's price
SHARE = 480_000


def customer(market):
    return balances.customer_balance(organization=market.customer.public_id)


def provider(market):
    return balances.provider_balance(provider=market.provider.public_id)


def revenue():
    return ledger.balance(ledger.account(Kind.PLATFORM_REVENUE, currency="usd"))


def queued():
    return UsageQueue.objects.filter(reader=Reader.BILLING).count()


def test_a_charge_is_taken_from_credit_and_shared(settings):
    market = Market()
    market.serve()

    posted = posting.post_usage(now=LATER)

    assert (posted.records, posted.transactions, posted.charged_nano, posted.earned_nano) == (1, 1, CHARGE, SHARE)
    assert customer(market).paid_nano == 10_000_000_000 - CHARGE
    assert provider(market).pending_nano == SHARE
    assert revenue() == CHARGE - SHARE
    assert queued() == 0
    assert reconcile.differences(now=LATER) == []


def test_the_lease_falls_by_what_was_used():
    market = Market(lease_nano=1_000_000)
    market.serve()

    posting.post_usage(now=LATER)

    lease = market.leases[0]
    lease.refresh_from_db()
    assert (lease.granted, lease.used) == (1_000_000, CHARGE)
    assert customer(market).held_nano == 1_000_000 - CHARGE


def test_many_records_of_one_customer_and_provider_are_one_transaction():
    market = Market()
    for _ in range(5):
        market.serve()

    posted = posting.post_usage(now=LATER)

    assert (posted.records, posted.transactions) == (5, 1)
    assert UsagePosting.objects.count() == 5
    assert LedgerTx.objects.get(kind="usage").effective_at == DELIVERED
    assert provider(market).pending_nano == 5 * SHARE
    assert reconcile.differences(now=LATER) == []


def test_a_second_run_finds_nothing():
    market = Market()
    market.serve()
    posting.post_usage(now=LATER)

    assert posting.post_usage(now=LATER) == posting.Posted()
    assert provider(market).pending_nano == SHARE


def test_a_record_that_is_queued_again_is_not_booked_again():
    market = Market()
    record = market.serve()
    posting.post_usage(now=LATER)
    UsageQueue.objects.create(
        reader=Reader.BILLING, opened_on=record.opened_on, request_id=record.request_id, attempt=record.attempt
    )

    posted = posting.post_usage(now=LATER)

    assert (posted.records, posted.known) == (0, 1)
    assert customer(market).paid_nano == 10_000_000_000 - CHARGE
    assert queued() == 0


def test_what_was_free_is_counted_and_moves_no_money():
    market = Market()
    market.serve(prompt=0, completion=0, outcome="node_fault")
    market.serve(charge_nano=0)

    posted = posting.post_usage(now=LATER)

    assert (posted.records, posted.transactions) == (2, 0)
    assert queued() == 0
    assert SpendDay.objects.get().requests == 1
    assert not LedgerTx.objects.filter(kind="usage").exists()


def test_the_operators_own_nodes_earn_for_the_platform():
    market = house_market()
    market.serve()

    posting.post_usage(now=LATER)

    assert revenue() == CHARGE
    assert provider(market).pending_nano == 0
    assert UsagePosting.objects.get().withheld == "house"
    assert not EarningMaturity.objects.exists()
    assert reconcile.differences(now=LATER) == []


@pytest.mark.parametrize("promo", [0, 1_000_000])
def test_nobody_earns_from_himself(promo):
    node = ServingNodeFactory()
    market = Market(customer=node.provider.organization, node=node, promo_nano=promo)
    market.serve()

    posting.post_usage(now=LATER)

    assert provider(market).pending_nano == 0
    assert revenue() == CHARGE
    assert UsagePosting.objects.get().withheld == "related_party"
    assert reconcile.differences(now=LATER) == []


def test_promotional_credit_pays_a_stranger():
    market = Market(promo_nano=700_000, lease_nano=700_000)
    market.serve()

    posting.post_usage(now=LATER)

    assert (customer(market).promo_nano, customer(market).paid_nano) == (100_000, 10_000_000_000)
    assert provider(market).pending_nano == SHARE


def test_what_no_lease_covers_becomes_debt():
    market = Market(paid_nano=1_000_000, lease_nano=1_000_000)
    leases.LIFE.begin_closing(lease_ids=[market.leases[0].pk])
    leases.LIFE.finish(lease_id=market.leases[0].pk, last_seq=0, now=LATER)
    ledger.post(
        kind="spent_elsewhere",
        key="spent:1",
        source_type="test",
        source_id="1",
        transfers=[
            ledger.Transfer(
                ledger.account(Kind.CUSTOMER_CREDIT, market.customer.public_id, currency="usd"),
                ledger.account(Kind.PLATFORM_REVENUE, currency="usd"),
                900_000,
            )
        ],
        actor=posting.SYSTEM_ACTOR,
        now=LATER,
    )
    market.serve()

    posting.post_usage(now=LATER)

    assert (customer(market).paid_nano, customer(market).debt_nano) == (0, CHARGE - 100_000)
    assert provider(market).pending_nano == SHARE
    assert reconcile.differences(now=LATER) == []


def test_a_budget_counts_what_was_used():
    market = Market()
    market.key.budget_cap_nano = 5_000_000
    market.key.save()
    budget = budgets.grant(
        terms=budget_of(market.key),
        window_at=DELIVERED,
        spool_id=market.spool.pk,
        ask=Ask(wanted_nano=1_000_000, minimum_nano=1, idle_nano={}),
        now=DELIVERED,
    )
    market.serve(budget_lease_ids=[budget.lease_id])
    market.serve(budget_lease_ids=[budget.lease_id])

    posting.post_usage(now=LATER)

    window = BudgetWindow.objects.get()
    assert window.used_nano == 2 * CHARGE
    assert window.leased_nano == budget.granted - min(budget.granted, 2 * CHARGE)
    assert reconcile.differences(now=LATER) == []


def test_a_budget_lease_that_was_closed_still_counts_what_was_used():
    market = Market()
    market.key.budget_cap_nano = 5_000_000
    market.key.save()
    budget = budgets.grant(
        terms=budget_of(market.key),
        window_at=DELIVERED,
        spool_id=market.spool.pk,
        ask=Ask(wanted_nano=1_000_000, minimum_nano=1),
        now=DELIVERED,
    )
    budgets.LIFE.begin_closing(lease_ids=[budget.lease_id])
    budgets.LIFE.finish(lease_id=budget.lease_id, last_seq=0, now=DELIVERED)
    market.serve(budget_lease_ids=[budget.lease_id])

    posting.post_usage(now=LATER)

    window = BudgetWindow.objects.get()
    assert (window.used_nano, window.leased_nano) == (CHARGE, 0)


@pytest.mark.parametrize(
    ("broken", "code"),
    [
        ({"provider_id": 999_999}, "provider_missing"),
        ({"lease_ids": [999_999]}, "lease_missing"),
        ({"budget_lease_ids": [999_999]}, "budget_lease_missing"),
    ],
)
def test_a_record_that_names_nothing_is_set_aside_and_stops_nobody(broken, code):
    market = Market()
    market.serve(**broken)
    market.serve()

    posted = posting.post_usage(now=LATER)

    assert (posted.records, posted.unpostable) == (1, 1)
    assert UnpostableUsage.objects.get().code == code
    assert queued() == 1
    assert posting.post_usage(now=LATER).taken == 0
    assert posting.post_usage(now=LATER + posting.RETRY_AFTER).unpostable == 1
    assert "usage_unpostable" in {found.code for found in reconcile.differences(now=LATER)}


def test_a_lease_of_another_customer_does_not_pay():
    market, other = Market(), Market()
    market.serve(lease_ids=[other.leases[0].pk])

    posted = posting.post_usage(now=LATER)

    assert posted.unpostable == 1
    assert UnpostableUsage.objects.get().code == "lease_of_another_organization"
    assert customer(other).paid_nano == 10_000_000_000


def test_a_record_set_aside_is_booked_once_it_can_be():
    market = Market()
    record = market.serve()
    UnpostableUsage.objects.create(
        opened_on=record.opened_on,
        request_id=record.request_id,
        attempt=record.attempt,
        code="provider_missing",
        first_seen_at=DELIVERED,
        retry_at=LATER,
    )

    posted = posting.post_usage(now=LATER)

    assert posted.records == 1
    assert not UnpostableUsage.objects.exists()
    assert reconcile.differences(now=LATER) == []


def test_post_all_goes_on_until_the_queue_is_empty():
    market = Market()
    for _ in range(5):
        market.serve()

    posted = posting.post_all(now=LATER, limit=2)

    assert (posted.records, posted.transactions) == (5, 3)
    assert queued() == 0


def test_post_all_stops_after_its_rounds():
    market = Market()
    for _ in range(5):
        market.serve()

    assert posting.post_all(now=LATER, limit=2, rounds=2).records == 4
    assert queued() == 1


def test_a_batch_spans_no_two_months():
    market = Market()
    market.serve(closed_at=datetime(2026, 10, 31, 23, 59, 59, 999_999, tzinfo=UTC))
    market.serve(closed_at=datetime(2026, 11, 1, tzinfo=UTC))

    posted = posting.post_usage(now=LATER)

    assert posted.transactions == 2
    assert sorted(LedgerTx.objects.filter(kind="usage").values_list("effective_at__month", flat=True)) == [10, 11]


def test_sums_of_a_day_grow_with_each_batch():
    market = Market()
    market.serve(prompt=1000, cached=200)
    posting.post_usage(now=LATER)
    market.serve()
    market.serve()
    posting.post_usage(now=LATER)

    spent, earned = SpendDay.objects.get(), EarningDay.objects.get()
    assert (spent.day, spent.requests, spent.prompt_tokens, spent.cached_tokens) == (DELIVERED.date(), 3, 3000, 200)
    assert (earned.completion_tokens, earned.charge_nano) == (1500, spent.charge_nano)
    assert earned.earned_nano == provider(market).pending_nano


def test_posting_costs_few_queries_for_many_records(django_assert_max_num_queries):
    market = Market()
    for _ in range(30):
        market.serve()

    with django_assert_max_num_queries(60):
        posting.post_usage(now=LATER)


def test_a_closed_lease_is_not_touched():
    market = Market(lease_nano=1_000_000)
    leases.LIFE.begin_closing(lease_ids=[market.leases[0].pk])
    leases.LIFE.finish(lease_id=market.leases[0].pk, last_seq=0, now=LATER)
    market.serve()

    posting.post_usage(now=LATER)

    lease = market.leases[0]
    lease.refresh_from_db()
    assert (lease.state, lease.used) == (LeaseState.CLOSED, 0)
    assert customer(market).paid_nano == 10_000_000_000 - CHARGE
    assert (customer(market).debt_nano, customer(market).held_nano) == (0, 0)
