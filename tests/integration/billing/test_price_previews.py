"""A preview tells what the last 30 days would have come to: exactly where it is quick, else within its bound."""

from datetime import timedelta

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import SpendDay
from portal.billing.rules.rating import Terms, charge_nano
from portal.billing.selectors import price_previews
from portal.billing.services import posting, prices
from portal.core.money import split_share
from portal.metering.models import UsageRecord
from portal.metering.services import hours
from tests.factories.billing import DELIVERED, OPENED, Market, ServingNodeFactory, agreed_price

pytestmark = pytest.mark.django_db
NEW = Terms(333_333_333, 111_111_111, 777_777_777, request_nano=1_001)
DAY = timedelta(days=1)


@pytest.fixture
def served() -> Market:
    """Two customers' requests of odd sizes, on several days and for different shares; some is not of the question."""
    market = Market()
    other = Market(model=market.model, node=ServingNodeFactory(provider=market.provider))
    for number in range(1, 9):
        market.serve(prompt=number * 17, cached=number, completion=number * 5, closed_at=DELIVERED - number * DAY)
        other.serve(prompt=number * 3, completion=number, share_bps=7_777)
    market.serve(closed_at=DELIVERED - 31 * DAY)  # too long ago
    Market().serve()  # another model
    market.serve(charge_nano=0, prompt=0, completion=0, outcome="node_fault")
    private = prices.set_price(model=market.model, terms=NEW, actor=SYSTEM_ACTOR, now=OPENED, provider=market.provider)
    other.serve(price_version_id=private.pk)
    agreed = agreed_price(market.customer, market.model, terms=NEW)
    market.serve(price_version_id=agreed.pk)
    posting.post_usage(now=DELIVERED)
    hours.add_all()
    return market


def _asked(market: Market) -> list[UsageRecord]:
    rows = UsageRecord.objects.filter(price_version_id=market.price.pk, closed_at__gte=DELIVERED - 30 * DAY)
    return [row for row in rows if row.prompt_tokens]


def _recomputed(rows: list[UsageRecord], terms: Terms) -> tuple[int, int]:
    charges = [
        charge_nano(price=terms, prompt=row.prompt_tokens, cached=row.cached_tokens, completion=row.completion_tokens)
        for row in rows
    ]
    earned = [split_share(charge, row.share_bps)[0] for charge, row in zip(charges, rows, strict=True)]
    return sum(charges), sum(earned)


def test_it_equals_every_record_rated_again(served, django_assert_num_queries):
    with django_assert_num_queries(3):
        shown = price_previews.preview(model_id=served.model.pk, terms=NEW, now=DELIVERED)

    rows = _asked(served)
    assert shown.is_exact
    assert shown.requests == len(rows) == 16
    assert (shown.then.charge_nano, shown.then.earned_nano) == _recomputed(rows, NEW)
    assert shown.now.charge_nano == sum(row.charge_nano for row in rows)
    assert shown.now.earned_nano == sum(row.provider_nano for row in rows)
    assert shown.margin_change_nano == shown.change_nano - shown.earned_change_nano
    assert shown.organizations[0].public_id == served.customer.public_id
    assert sum(row.then_nano for row in shown.organizations) == shown.then.charge_nano


def test_from_the_daily_sums_it_is_within_the_bound_it_states(served, monkeypatch, django_assert_max_num_queries):
    exact = price_previews.preview(model_id=served.model.pk, terms=NEW, now=DELIVERED)
    monkeypatch.setattr(price_previews, "EXACT_UP_TO", 0)

    with django_assert_max_num_queries(4):
        shown = price_previews.preview(model_id=served.model.pk, terms=NEW, now=DELIVERED)

    assert not shown.is_exact
    assert 0 < shown.bound_nano < 100
    assert shown.requests == exact.requests
    assert shown.now == exact.now
    assert abs(shown.then.charge_nano - exact.then.charge_nano) <= shown.bound_nano
    assert abs(shown.then.earned_nano - exact.then.earned_nano) <= shown.bound_nano


def test_of_one_organization_its_agreement_counts_too(served):
    shown = price_previews.preview(
        model_id=served.model.pk, terms=NEW, now=DELIVERED, organization_id=served.customer.pk
    )

    assert shown.requests == 8 + 1
    assert [row.public_id for row in shown.organizations] == [served.customer.public_id]


def test_without_usage_nothing_changes():
    market = Market()

    shown = price_previews.preview(model_id=market.model.pk, terms=NEW, now=DELIVERED)

    assert (shown.requests, shown.change_nano, shown.others) == (0, 0, 0)
    assert not SpendDay.objects.exists()


def test_what_earned_nothing_earns_nothing_at_another_price(monkeypatch):
    """The customer's own node: its share is withheld, whatever the price."""
    market = Market()
    own = Market(customer=market.provider.organization, node=market.node, model=market.model)
    own.serve()
    posting.post_usage(now=DELIVERED)

    exact = price_previews.preview(model_id=market.model.pk, terms=NEW, now=DELIVERED)
    monkeypatch.setattr(price_previews, "EXACT_UP_TO", 0)
    summed = price_previews.preview(model_id=market.model.pk, terms=NEW, now=DELIVERED)

    assert (exact.then.earned_nano, summed.then.earned_nano) == (0, 0)
    assert exact.then.charge_nano > 0
