"""Claw-backs and credits: seen before, booked once, by two people where two are needed, and told to the provider."""

from datetime import timedelta

import pytest
from django.urls import reverse

from portal.accounts.models import Role
from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import (
    AdjustmentKind,
    AdjustmentReason,
    EarningMaturity,
    LedgerTx,
    ProviderAdjustment,
    ReservedEarning,
)
from portal.billing.rules.accounts import Kind
from portal.billing.rules.periods import month_of
from portal.billing.selectors import balances
from portal.billing.selectors import statements as statement_selectors
from portal.billing.selectors.statements import Party
from portal.billing.services import adjustments, ledger, maturity, netting, posting, reconcile
from portal.billing.services.adjustments import AdjustmentOrder, HouseHasNoEarnings, NeedsAnother, NotProposed
from portal.core.errors import InvalidValue
from portal.notifications.models import Message
from tests.factories.accounts import MembershipFactory, OrganizationFactory, UserFactory
from tests.factories.billing import DELIVERED, Market, house_market
from tests.world import World

pytestmark = pytest.mark.django_db
LATER = DELIVERED + timedelta(minutes=1)
MATURED = DELIVERED + timedelta(days=7)
SHARE = 480_000


@pytest.fixture(autouse=True)
def _terms(settings):
    settings.PAYOUT_HOLD_DAYS, settings.PAYOUT_RESERVE_BPS, settings.PAYOUT_RESERVE_DAYS = 7, 1000, 30
    settings.PAYOUT_APPROVERS = 1


@pytest.fixture
def market() -> Market:
    """A provider with a matured earning, a part of it in reserve, and a later one that matures still."""
    made = Market()
    made.serve()
    posting.post_usage(now=LATER)
    maturity.mature(now=MATURED)
    made.serve(closed_at=MATURED)
    posting.post_usage(now=MATURED + timedelta(minutes=1))
    return made


def order(market, amount: int, **changes) -> AdjustmentOrder:
    return AdjustmentOrder(
        **{
            "provider": market.provider,
            "kind": AdjustmentKind.CLAWBACK,
            "reason": AdjustmentReason.FRAUD,
            "amount_nano": amount,
            "note": "It served a smaller model.",
            "evidence": "https://pool.example/evidence/1",
        }
        | changes
    )


def propose(market, amount: int, **changes) -> ProviderAdjustment:
    return adjustments.propose(
        order=order(market, amount, **changes),
        proposed_by=changes.pop("by", None) or UserFactory(is_operator=True),
        actor=SYSTEM_ACTOR,
        now=MATURED,
    )


def owed(market):
    found = balances.provider_balance(provider=market.provider.public_id)
    return found.pending_nano, found.reserve_nano, found.available_nano, found.debt_nano


def revenue() -> int:
    return ledger.balance(ledger.account(Kind.PLATFORM_REVENUE, currency="usd"))


def test_the_fixture(market):
    assert owed(market) == (SHARE, SHARE // 10, SHARE * 9 // 10, 0)


@pytest.mark.parametrize(
    ("amount", "left"),
    [
        (1, (SHARE - 1, SHARE // 10, SHARE * 9 // 10, 0)),
        (SHARE, (0, SHARE // 10, SHARE * 9 // 10, 0)),
        (SHARE + 1, (0, SHARE // 10 - 1, SHARE * 9 // 10, 0)),
        (SHARE + SHARE // 10 + 1, (0, 0, SHARE * 9 // 10 - 1, 0)),
        (2 * SHARE, (0, 0, 0, 0)),
        (2 * SHARE + 7, (0, 0, 0, 7)),
    ],
)
def test_a_clawback_takes_immature_then_reserve_then_available_then_what_comes(market, amount, left):
    before = revenue()
    split = adjustments.preview(provider=market.provider, amount_nano=amount)

    row = propose(market, amount)

    assert owed(market) == left
    assert revenue() == before + amount
    assert (row.from_pending_nano, row.from_reserve_nano, row.from_available_nano, row.to_debt_nano) == (
        split.pending_nano,
        split.reserve_nano,
        split.available_nano,
        split.debt_nano,
    )
    assert reconcile.differences(now=MATURED) == []


def test_what_was_taken_whole_never_matures_and_the_rest_does(market):
    propose(market, SHARE + 5)

    assert maturity.mature(now=MATURED + timedelta(days=30)) == 0
    assert ReservedEarning.objects.get().left_nano == SHARE // 10 - 5
    assert EarningMaturity.objects.get(tx__effective_at=MATURED).matured_tx == LedgerTx.objects.get(
        kind="provider_clawback"
    )
    assert reconcile.differences(now=MATURED) == []


def test_what_was_taken_in_part_matures_for_the_rest(market):
    propose(market, 100)

    maturity.mature(now=MATURED + timedelta(days=7))

    pending, reserve, available, _ = owed(market)
    assert (pending, reserve + available) == (0, 2 * SHARE - 100)
    assert reconcile.differences(now=MATURED) == []


def test_a_named_customer_gets_what_is_taken(market):
    customer = OrganizationFactory()

    propose(market, 1000, customer=customer)

    assert balances.customer_balance(organization=customer.public_id).paid_nano == 1000


def test_a_debt_is_netted_from_what_matures_next_as_a_posting_of_its_own(market):
    propose(market, 2 * SHARE + 1000)
    market.serve(closed_at=MATURED + timedelta(hours=1))
    posting.post_usage(now=MATURED + timedelta(hours=2))

    maturity.mature(now=MATURED + timedelta(days=8))

    pending, reserve, available, debt = owed(market)
    assert (pending, reserve, available, debt) == (0, SHARE // 10, SHARE * 9 // 10 - 1000, 0)
    netted = LedgerTx.objects.get(kind="debt_netted")
    assert netted.transfers.get().amount == 1000
    assert netting.net_debt(provider=market.provider.public_id, cause="again", now=MATURED) == 0
    assert reconcile.differences(now=MATURED) == []


def test_a_credit_comes_from_the_pools_revenue_and_pays_debt_first(market):
    propose(market, 2 * SHARE + 100)
    before = revenue()

    propose(market, 250, kind=AdjustmentKind.CREDIT, reason=AdjustmentReason.UNDERPAID)

    assert owed(market) == (0, 0, 150, 0)
    assert revenue() == before - 250


def test_two_people_where_two_are_needed(market, settings):
    settings.PAYOUT_APPROVERS = 2
    first, second = UserFactory(is_operator=True), UserFactory(is_operator=True)
    before = owed(market)
    row = adjustments.propose(order=order(market, 1000), proposed_by=first, actor=SYSTEM_ACTOR, now=MATURED)

    assert (row.state, owed(market)) == ("proposed", before)
    with pytest.raises(NeedsAnother):
        adjustments.approve(public_id=row.public_id, approver=first, actor=SYSTEM_ACTOR, now=MATURED)
    assert owed(market) == before

    booked = adjustments.approve(public_id=row.public_id, approver=second, actor=SYSTEM_ACTOR, now=MATURED)
    assert (booked.state, booked.decided_by, owed(market)[0]) == ("booked", second, before[0] - 1000)
    with pytest.raises(NotProposed):
        adjustments.approve(public_id=row.public_id, approver=second, actor=SYSTEM_ACTOR, now=MATURED)
    assert LedgerTx.objects.filter(kind="provider_clawback").count() == 1


def test_a_withdrawn_one_books_nothing(market, settings):
    settings.PAYOUT_APPROVERS = 2
    row = propose(market, 1000)

    adjustments.withdraw(public_id=row.public_id, by=UserFactory(is_operator=True), actor=SYSTEM_ACTOR, now=MATURED)

    assert (LedgerTx.objects.filter(kind="provider_clawback").count(), Message.objects.count()) == (0, 0)


@pytest.mark.parametrize(
    "changes",
    [{"amount_nano": 0}, {"amount_nano": -1}, {"note": "  "}, {"kind": AdjustmentKind.CREDIT, "customer": 1}],
)
def test_what_makes_no_sense_is_refused_and_leaves_nothing(market, changes):
    if "customer" in changes:
        changes["customer"] = OrganizationFactory()

    with pytest.raises(InvalidValue):
        propose(market, 1000, **changes)

    assert ProviderAdjustment.objects.count() == 0


def test_house_nodes_have_nothing_to_correct():
    with pytest.raises(HouseHasNoEarnings):
        propose(house_market(), 1000)


def test_the_provider_is_told_and_it_is_audited(market):
    owner = UserFactory(email="owner@provider.example")
    MembershipFactory(organization=market.provider.organization, user=owner, role=Role.OWNER)

    row = propose(market, 1000)

    told = Message.objects.filter(template="provider_adjustment").order_by("to")
    assert [message.to for message in told] == ["ops@example.com", "owner@provider.example"]
    assert (told[0].context["amount"], told[0].context["pending"]) == ("0.000001 USD", "0.000001")
    events = AuditEvent.objects.filter(subject=row.public_id).order_by("pk").values_list("event", flat=True)
    assert list(events) == ["provider_adjustment.proposed", "provider_adjustment.booked"]


def test_the_statement_shows_it_and_still_adds_up(market):
    propose(market, 2 * SHARE + 7)

    content = statement_selectors.content(
        party=Party("provider", market.provider.public_id), period=month_of(MATURED), currency="usd"
    )

    assert [(line.kind, line.amount_nano, line.note) for line in content.entries] == [
        ("provider_clawback", -(2 * SHARE + 7), "It served a smaller model.")
    ]
    assert (content.closing_nano, content.gap_nano) == (-7, 0)


def test_an_operator_sees_what_it_does_before_it_is_done(world: World):
    operator = world.client(world.operator)
    url = reverse("operators:adjustment-new", args=[world.provider.public_id])
    given = {"kind": "clawback", "amount": "12.50", "reason": "fraud", "note": "why", "evidence": "", "customer": ""}

    seen = operator.post(url, given | {"step": "preview"}).content.decode()
    assert ("Owed, and netted from what is earned next" in seen, ProviderAdjustment.objects.count()) == (True, 0)
    for wrong in ({"amount": "12,5"}, {"amount": "-1"}, {"customer": "org_nobody"}, {"note": ""}):
        operator.post(url, given | wrong | {"step": "propose"})
    assert ProviderAdjustment.objects.count() == 0

    answer = operator.post(url, given | {"step": "propose"})
    row = ProviderAdjustment.objects.get()
    assert answer.url == reverse("operators:adjustment", args=[row.public_id])
    assert "What it took" in operator.get(answer.url).content.decode()
    provider_page = world.client(world.supplier.owner).get(reverse("provider:earnings")).content.decode()
    assert "Taken back: Fraud" in provider_page


def test_an_operator_approves_or_withdraws_on_the_page(world: World, settings):
    settings.PAYOUT_APPROVERS = 2
    row = adjustments.propose(
        order=AdjustmentOrder(world.provider, AdjustmentKind.CLAWBACK, AdjustmentReason.FRAUD, 1000, "why"),
        proposed_by=world.operator,
        actor=SYSTEM_ACTOR,
        now=MATURED,
    )
    page = reverse("operators:adjustment", args=[row.public_id])
    decide = reverse("operators:adjustment-decide", args=[row.public_id])
    own, other = world.client(world.operator), world.client(UserFactory(is_operator=True))

    assert "another operator has to approve it" in own.get(page).content.decode()
    assert own.post(decide, {"action": "approve"}).status_code == 403
    assert other.post(decide, {"action": "steal"}).status_code == 400
    nowhere = reverse("operators:adjustment-decide", args=["adj_none"])
    assert [other.post(nowhere, {"action": action}).status_code for action in ("approve", "withdraw")] == [404, 404]
    assert other.post(decide, {"action": "approve"}).status_code == 302
    row.refresh_from_db()
    assert row.state == "booked"
