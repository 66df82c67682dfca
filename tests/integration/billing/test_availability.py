"""Machines that stand ready are paid by the hour, once, by the portal's own history of their states."""

from datetime import UTC, datetime, timedelta

import pytest
from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import PriceInThePast, UnsoundPrice
from portal.billing.models import AvailabilityHour, AvailabilityRate, EarningMaturity, LedgerTx, RelatedPair
from portal.billing.rules.accounts import Kind
from portal.billing.rules.periods import month_of
from portal.billing.selectors import availability as selectors
from portal.billing.selectors import statements
from portal.billing.selectors.statements import Party
from portal.billing.services import availability, ledger, maturity, reconcile
from portal.core.errors import Conflict
from portal.nodes.models import CheckResult, Node
from tests.factories.checks import CheckResultFactory, CheckRoundFactory
from tests.factories.nodes import GpuFactory, NodeEventFactory, NodeFactory
from tests.factories.providers import ProviderFactory

pytestmark = pytest.mark.django_db
HOUR = datetime(2026, 11, 2, 10, tzinfo=UTC)
NOW = HOUR + timedelta(hours=1, minutes=6)
JOINED = HOUR - timedelta(days=3)
MINUTE = timedelta(minutes=1)
RATE = 400_000


def set_rate(nano: int = RATE, **changes) -> AvailabilityRate:
    given = {"gpu_kind": "", "effective_from": HOUR, "now": HOUR - MINUTE, "actor": SYSTEM_ACTOR} | changes
    return availability.set_rate(nano_per_minute=nano, **given)


def ready_node(*, gpus: int = 2, verdict: str = "pass", **fields) -> Node:
    """A node that serves since it joined, with GPUs whose newest measurement has this verdict."""
    given = {"provider": ProviderFactory(is_identified=True), "enrolled_at": JOINED} | fields
    node = NodeFactory(**given)
    NodeEventFactory(node=node, at=JOINED, from_state="", to_state="serving", code="serving")
    checks = CheckRoundFactory(node=node)
    for _ in range(gpus):
        gpu = GpuFactory(node=node)
        CheckResultFactory(round=checks, subject=gpu.uuid, verdict=verdict, at=JOINED)
    return node


def earned() -> dict[str, int]:
    return dict(AvailabilityHour.objects.values_list("node", "amount_nano"))


def test_by_default_nothing_is_paid(django_assert_num_queries):
    ready_node()

    with django_assert_num_queries(1):
        assert availability.pay(now=NOW) == 0

    assert not LedgerTx.objects.exists()


def test_each_minute_of_each_verified_gpu_is_paid_once_and_matures_like_other_earnings(settings):
    settings.PAYOUT_HOLD_DAYS = 7
    node = ready_node(gpus=2)
    NodeEventFactory(node=node, at=HOUR + 45 * MINUTE, from_state="serving", to_state="offline", code="heartbeat_lost")
    set_rate()

    assert [availability.pay(now=NOW), availability.pay(now=NOW)] == [1, 0]

    paid = AvailabilityHour.objects.get()
    assert (paid.hour, paid.minutes, paid.gpus, paid.amount_nano) == (HOUR, 45, 2, 45 * 2 * RATE)
    due = EarningMaturity.objects.get()
    assert (due.provider, due.amount_nano, due.matures_at) == (
        node.provider.public_id, paid.amount_nano, HOUR + timedelta(hours=1, days=7)
    )  # fmt: skip
    expense = ledger.account(Kind.AVAILABILITY_EXPENSE, currency="usd")
    pending = ledger.account(Kind.PROVIDER_PENDING, node.provider.public_id, currency="usd")
    assert (ledger.balance(expense), ledger.balance(pending)) == (paid.amount_nano, paid.amount_nano)
    assert maturity.mature(now=due.matures_at) == 1
    assert [found.code for found in reconcile.differences(now=NOW)] == []


def test_house_unidentified_private_simulated_suspended_and_related_nodes_get_none():
    house = ProviderFactory(house=True)
    related = ProviderFactory(is_identified=True)
    low, high = sorted([house.organization_id, related.organization_id])
    RelatedPair.objects.create(
        low_id=low, high_id=high, kinds=["person"], found="related", is_related=True, found_at=JOINED, changed_at=JOINED
    )
    ready_node(provider=house)
    ready_node(provider=related)
    ready_node(provider=ProviderFactory(is_identified=False))
    ready_node(provider=ProviderFactory(is_identified=True, state="suspended"))
    ready_node(is_private=True)
    ready_node(is_simulated=True)
    paid = ready_node()
    set_rate()

    availability.pay(now=NOW)

    assert earned() == {paid.public_id: 60 * 2 * RATE}


def test_a_gpu_counts_where_it_has_shown_its_work_and_nobody_else_reports_it():
    claims = ready_node(verdict="fail")
    unmeasured = ready_node()
    CheckResult.objects.filter(node=unmeasured).delete()
    twin = ready_node(gpus=1)
    GpuFactory(node=ready_node(gpus=0), uuid=twin.gpus.get().uuid)
    faulty = ready_node(gpus=2)
    faulty.gpus.filter(pk=faulty.gpus.first().pk).update(fault_code="gpu_fell_off_bus")
    set_rate()

    availability.pay(now=NOW)

    assert earned() == {faulty.public_id: 60 * RATE}
    assert claims.public_id not in earned()


def test_the_rate_of_an_hour_is_the_one_in_force_at_its_beginning_and_of_the_gpus_kind():
    set_rate(100, effective_from=HOUR)
    set_rate(0, gpu_kind="RTX 4090", effective_from=HOUR + timedelta(hours=1))
    node = ready_node(gpus=1)
    node.gpus.update(name="NVIDIA GeForce RTX 4090")

    availability.pay(now=HOUR + timedelta(hours=3, minutes=6))

    assert list(AvailabilityHour.objects.values_list("hour", "amount_nano")) == [(HOUR, 6000)]


def test_an_hour_waits_for_its_last_move_and_is_not_paid_for_ever(monkeypatch):
    node = ready_node()
    set_rate()
    monkeypatch.setattr(availability, "PAID_WITHIN", timedelta(hours=6))

    assert availability.pay(now=HOUR + timedelta(hours=1, minutes=4)) == 0
    assert availability.pay(now=HOUR + timedelta(hours=60)) == 6 - 1

    assert AvailabilityHour.objects.order_by("hour").first().hour == HOUR + timedelta(hours=54)
    assert AvailabilityHour.objects.filter(node_id=node.pk).count() == 5


def test_a_day_never_pays_more_than_its_minutes_times_the_verified_gpus():
    node = ready_node(gpus=3)
    set_rate(effective_from=HOUR.replace(hour=0), now=HOUR.replace(hour=0))

    availability.pay(now=HOUR.replace(hour=0) + timedelta(days=1, minutes=6))

    (day,) = selectors.paid_days(
        provider=node.provider.public_id, first=HOUR.replace(hour=0), last=HOUR.replace(hour=0) + timedelta(days=1)
    )
    assert (day.hours, day.gpu_minutes, day.amount_nano) == (24, 3 * 1440, 3 * 1440 * RATE)


def test_a_crash_in_the_middle_of_an_hour_pays_it_whole_the_next_time():
    nodes = [ready_node(), ready_node()]
    set_rate()

    with transaction.atomic():
        availability.pay(now=NOW)
        transaction.set_rollback(True)  # the worker died before its commit
    assert not AvailabilityHour.objects.exists()

    assert availability.pay(now=NOW) == len(nodes)


def test_a_statement_shows_it_by_the_day_and_adds_up():
    node = ready_node()
    set_rate()
    availability.pay(now=HOUR + timedelta(hours=3, minutes=6))

    content = statements.content(
        party=Party("provider", node.provider.public_id), period=month_of(HOUR), currency="usd"
    )

    (line,) = content.entries
    assert (line.kind, line.amount_nano, line.at) == ("availability", 3 * 60 * 2 * RATE, "2026-11-02T00:00:00+00:00")
    assert line.note == f"{node.public_id}: 360 GPU-minutes"
    assert content.gap_nano == 0


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"nano": -1}, UnsoundPrice),
        ({"nano": availability.HIGHEST_NANO + 1}, UnsoundPrice),
        ({"gpu_kind": "Abacus 9000"}, UnsoundPrice),
        ({"effective_from": HOUR + MINUTE}, UnsoundPrice),
        ({"effective_from": HOUR - timedelta(hours=1)}, PriceInThePast),
    ],
)
def test_a_rate_that_cannot_be_is_refused(changes, error):
    with pytest.raises(error):
        set_rate(**changes)

    assert not AvailabilityRate.objects.exists()


def test_two_rates_do_not_share_an_hour():
    set_rate()

    with pytest.raises(Conflict):
        set_rate(1)

    assert AvailabilityRate.objects.get().nano_per_minute == RATE
