"""The margin: what customers were charged, less all that it cost, in three tables with one sum."""

from datetime import UTC, date, datetime, timedelta

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import AvailabilityHour, LedgerTx
from portal.billing.rules.clawback import Split
from portal.billing.selectors.margin import margin
from portal.billing.services import availability, ledger, posting, templates
from portal.nodes.models import HouseCost
from tests.factories.billing import DELIVERED, Market, house_market
from tests.factories.nodes import NodeEventFactory, NodeFactory
from tests.integration.billing.test_availability import ready_node

pytestmark = pytest.mark.django_db
FIRST, LAST = date(2026, 11, 1), date(2026, 11, 3)
NOON = datetime(2026, 11, 3, 12, tzinfo=UTC)


def post(kind: str, transfers, *, at: datetime = DELIVERED) -> None:
    given = {"source_type": "test", "source_id": kind, "actor": SYSTEM_ACTOR, "now": at}
    ledger.post(kind=kind, key=f"test:{kind}", transfers=transfers, **given)


def test_every_cost_is_in_it_and_the_tables_have_one_sum(django_assert_max_num_queries):
    market, house = Market(promo_nano=0), house_market()
    market.serve(node_class="community")
    house.serve(node_class="house", share_bps=0, closed_at=DELIVERED - timedelta(days=1))
    posting.post_usage(now=DELIVERED)
    NodeEventFactory(node=house.node, at=datetime(2026, 11, 3, 6, tzinfo=UTC), to_state="retired", code="retired")
    HouseCost.objects.create(
        node=house.node, nano_per_hour=1_000_000, effective_from=datetime(2026, 11, 2, 12, tzinfo=UTC),
        created_at=DELIVERED, created_by="user_operator",
    )  # fmt: skip
    ready_node(gpus=1)
    availability.set_rate(gpu_kind="", nano_per_minute=10, actor=SYSTEM_ACTOR, now=DELIVERED, effective_from=DELIVERED)
    availability.pay(now=DELIVERED + timedelta(hours=1, minutes=6))
    post("stripe_fee", templates.stripe_fee(amount=300, currency="usd"))
    post("dispute_fee", templates.dispute_fee(amount=200, currency="usd"))
    post("promo_grant", templates.promo_grant(organization=market.customer.public_id, amount=50, currency="usd"))
    provider = market.provider.public_id
    post("provider_credit", templates.provider_credit(provider=provider, amount=70, currency="usd"))
    pending = Split(held_nano=0, pending_nano=30, reserve_nano=0, available_nano=0, debt_nano=0)
    post(
        "provider_clawback", templates.provider_clawback(provider=provider, split=pending, customer="", currency="usd")
    )

    with django_assert_max_num_queries(12):
        found = margin(first=FIRST, last=LAST, now=NOON)

    total = found.total
    assert (total.requests, total.charge_nano, total.earned_nano) == (2, 1_200_000, 480_000)
    assert total.availability_nano == AvailabilityHour.objects.get().amount_nano == 600
    assert total.house_nano == 18 * 1_000_000
    assert (total.stripe_fees_nano, total.write_offs_nano, total.promotion_nano) == (300, 200, 50)
    assert total.corrections_nano == 70 - 30
    assert total.margin_nano == 1_200_000 - 480_000 - 600 - 18_000_000 - 300 - 200 - 50 - 40
    for rows in (found.days, found.models, found.classes):
        assert sum(row.margin_nano for row in rows) == total.margin_nano
    assert [row.charge_nano for row in found.days] == [600_000, 600_000, 0]
    assert [row.house_nano for row in found.days] == [0, 12_000_000, 6_000_000]
    by_class = {row.name: row for row in found.classes}
    assert (by_class["community"].charge_nano, by_class["house"].earned_nano) == (600_000, 0)
    assert by_class["house"].house_nano == 18_000_000


def test_a_house_nodes_cost_is_shown_and_never_booked():
    node = NodeFactory(provider__kind="house", enrolled_at=datetime(2026, 11, 2, tzinfo=UTC))
    HouseCost.objects.create(
        node=node, nano_per_hour=5, effective_from=datetime(2026, 1, 1, tzinfo=UTC), created_at=DELIVERED,
        created_by="user_operator",
    )  # fmt: skip

    found = margin(first=FIRST, last=LAST, now=NOON)

    assert found.total.house_nano == 5 * 36
    assert found.total.margin_nano == -5 * 36
    assert not LedgerTx.objects.exists()
