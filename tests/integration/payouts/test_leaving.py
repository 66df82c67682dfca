"""Who leaves is paid all it earned: below the minimum, once all has matured, the reserve at its time, without dust."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerTx
from portal.billing.rules.accounts import Kind
from portal.billing.services import ledger, templates
from portal.core.errors import InvalidValue
from portal.nodes.models import Node
from portal.payouts.errors import NotLeaving
from portal.payouts.models import PayoutPlan, Schedule
from portal.payouts.selectors import dues
from portal.payouts.services import approvals, drafts, plans, sending
from tests.factories.accounts import UserFactory
from tests.factories.nodes import NodeFactory
from tests.factories.payouts import balance_of, earn
from tests.world import World

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _terms(shop, settings):
    settings.PAYOUT_MINIMUM_MINOR = 2000


@pytest.fixture
def provider(shop, now):
    """A provider with one node and 5.00, far below the minimum."""
    made = shop.provider(earned_minor=500, now=now)
    NodeFactory(provider=made)
    shop.fund(10_000)
    return made


def pending(provider, minor: int, now) -> None:
    """Let something mature still."""
    nano = minor * 10_000_000
    credit = earn(provider, minor=minor, now=now, key=f"pending{minor}")
    rows = ledger.accounts(
        [(Kind.PROVIDER_AVAILABLE, provider.public_id), (Kind.PROVIDER_PENDING, provider.public_id)], currency="usd"
    )
    ledger.post(
        kind="test",
        key=f"pending:{credit.owner}",
        source_type="test",
        source_id=credit.owner,
        transfers=[
            ledger.Transfer(
                rows[f"provider_available:{provider.public_id}"], rows[f"provider_pending:{provider.public_id}"], nano
            )
        ],
        actor=SYSTEM_ACTOR,
        now=now,
    )


def draft(now):
    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)
    return [(one.amount_minor, one.is_final) for one in run.payouts], [one.reason.code for one in run.skipped]


def pay(now) -> None:
    """Draft, approve and send."""
    for payout in drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts:
        approvals.approve(
            payout_public_id=payout.public_id,
            approver=UserFactory(is_operator=True),
            actor=SYSTEM_ACTOR,
            now=now,
        )
        sending.send(payout_id=payout.pk, now=now)


def leave(provider, now) -> PayoutPlan:
    return plans.leave(provider_id=provider.public_id, actor=SYSTEM_ACTOR, now=now)


def test_who_stays_waits_for_the_minimum(provider, now):
    assert draft(now) == ([], ["below_minimum"])


def test_when_the_last_node_leaves_the_rest_is_paid_below_the_minimum(provider, now):
    Node.objects.filter(provider=provider).update(state="retired")

    assert draft(now) == ([(500, True)], [])


def test_leaving_retires_every_node_and_pays_after_all_has_matured(provider, now):
    pending(provider, 300, now)

    leave(provider, now)

    assert set(Node.objects.values_list("state", flat=True)) == {"retired"}
    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)
    assert [(one.reason.code, one.reason.detail) for one in run.skipped] == [("not_matured", "3 USD still mature")]


def test_the_reserve_is_paid_at_its_own_time_by_another_final_payout(provider, now):
    name = provider.public_id
    nano = 1_000_000_000
    reserve = ledger.account(Kind.PROVIDER_RESERVE, name, currency="usd")
    ledger.post(
        kind="test",
        key="reserve",
        source_type="test",
        source_id=name,
        transfers=[ledger.Transfer(ledger.account(Kind.PROVIDER_AVAILABLE, name, currency="usd"), reserve, nano)],
        actor=SYSTEM_ACTOR,
        now=now,
    )
    leave(provider, now)
    pay(now)
    assert plans.settle_left(now=now) == 0

    ledger.post(
        kind="reserve_released",
        key="released",
        source_type="test",
        source_id=name,
        transfers=templates.reserve_released(provider=name, amount=nano, currency="usd"),
        actor=SYSTEM_ACTOR,
        now=now,
    )

    assert draft(now + timedelta(days=30)) == ([(100, True)], [])


def test_below_stripes_own_floor_it_stays_payable_and_is_not_taken(shop, now):
    provider = shop.provider(earned_minor=99, now=now)
    NodeFactory(provider=provider)
    leave(provider, now)

    assert draft(now) == ([], ["below_minimum"])
    assert plans.settle_left(now=now) == 0
    assert balance_of("provider_available", provider.public_id) == 990_000_000


def test_dust_is_written_off_at_the_very_end(provider, now):
    credit = earn(provider, minor=1, now=now, key="dust")
    available = ledger.account(Kind.PROVIDER_AVAILABLE, provider.public_id, currency="usd")
    ledger.post(
        kind="test",
        key="dust",
        source_type="test",
        source_id="dust",
        transfers=[ledger.Transfer(available, credit, 4_000_000)],
        actor=SYSTEM_ACTOR,
        now=now,
    )
    leave(provider, now)
    assert plans.settle_left(now=now) == 0
    pay(now)

    assert plans.settle_left(now=now) == 1
    assert plans.settle_left(now=now) == 0

    assert (balance_of("provider_available", provider.public_id), balance_of("breakage")) == (0, 6_000_000)
    assert LedgerTx.objects.filter(kind="dust_written_off").count() == 1
    assert PayoutPlan.objects.get(provider=provider).settled_at == now


def test_who_comes_back_goes_on_as_before(provider, now):
    leave(provider, now)
    NodeFactory(provider=provider)

    assert not dues.candidate(provider).has_left
    assert draft(now) == ([], ["below_minimum"])


def test_a_suspended_node_is_cleared_up_first(provider, now):
    Node.objects.filter(provider=provider).update(state="suspended")

    with pytest.raises(NotLeaving):
        leave(provider, now)

    assert PayoutPlan.objects.count() == 0


def test_a_provider_chooses_its_threshold(provider, now):
    earn(provider, minor=2000, now=now, key="more")
    plans.choose(
        provider_id=provider.public_id,
        schedule=Schedule.THRESHOLD,
        threshold_minor=5000,
        actor=SYSTEM_ACTOR,
        now=now,
    )

    run = drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR)

    assert [(one.reason.code, one.reason.detail) for one in run.skipped] == [("below_threshold", "2500 of 5000")]


@pytest.mark.parametrize("threshold", [None, 0, 1999])
def test_a_threshold_is_at_least_the_smallest_payout(provider, now, threshold):
    with pytest.raises(InvalidValue):
        plans.choose(
            provider_id=provider.public_id,
            schedule=Schedule.THRESHOLD,
            threshold_minor=threshold,
            actor=SYSTEM_ACTOR,
            now=now,
        )

    assert PayoutPlan.objects.count() == 0


def test_the_provider_chooses_and_leaves_on_its_pages(world: World):
    NodeFactory(provider=world.provider)
    owner = world.client(world.supplier.owner)

    owner.post(reverse("provider:payout-plan"), {"schedule": "threshold", "threshold": "50.00"})
    assert PayoutPlan.objects.get().threshold_minor == 5000
    wrong = owner.post(reverse("provider:leave"), {"name": "Somebody else"})
    assert ("not the legal name" in wrong.content.decode(), PayoutPlan.objects.get().left_at) == (True, None)

    owner.post(reverse("provider:leave"), {"name": world.provider.legal_name})

    assert PayoutPlan.objects.get().left_at is not None
    assert Node.objects.get(provider=world.provider).state == "retired"
    assert "You have left." in owner.get(reverse("provider:payouts")).content.decode()
