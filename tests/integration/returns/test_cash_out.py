"""The cash-out loop: stolen card to credit to one's own node to a payout; and promotional credit to one's own node.

Each way ends with the thief unpaid.
"""

from datetime import timedelta

import pytest

from portal.accounts.models import Organization
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.models import AdjustmentKind, AdjustmentReason, EarningMaturity, UsagePosting
from portal.billing.rules.related import FactKind
from portal.billing.services import (
    adjustments,
    disputes,
    fraud_warnings,
    grants,
    maturity,
    posting,
    reconcile,
    related,
    risk,
    topup_guard,
    topups,
)
from portal.billing.services.adjustments import AdjustmentOrder
from portal.payouts.services import drafts
from tests.factories.accounts import MembershipFactory, OrganizationFactory, UserFactory
from tests.factories.billing import Market, ServingNodeFactory
from tests.factories.payouts import balance_of
from tests.integration.returns.till import books_differ_by, paid

pytestmark = pytest.mark.django_db
OPERATOR = Actor(public_id="user_operator")
CHARGE = 40 * 10**9
SHARE = 32 * 10**9


@pytest.fixture
def den(shop, now):
    """A thief with a stolen card at one organization, and with a node, ready to be paid, at another."""
    provider = shop.provider(earned_minor=0, now=now)
    Organization.objects.filter(pk=provider.organization_id).update(is_provider=True)
    topup = paid(shop, amount=5000, now=now)
    risk.judge(organization_id=topup.organization_id, now=now)
    market = Market(customer=topup.organization, node=ServingNodeFactory(provider=provider), paid_nano=0, lease_nano=0)
    market.leases = market.lease(CHARGE)
    return topup, market


def burn(market, now) -> list[tuple[int, str]]:
    """Run the stolen credit through the own node."""
    market.serve(prompt=0, completion=50_000_000, closed_at=now)
    posting.post_usage(now=now)
    return list(UsagePosting.objects.values_list("provider_nano", "withheld"))


def payable(shop, now) -> list[int]:
    """Let everything mature that may, and return what a payout run would pay."""
    shop.fund(100_000)
    maturity.mature(now=now)
    return [payout.amount_minor for payout in drafts.draft_payouts(now=now, actor=SYSTEM_ACTOR).payouts]


def claw_back(market, topup, now) -> None:
    """The operator decides that what was earned from the stolen card goes back."""
    operator = UserFactory(is_operator=True)
    order = AdjustmentOrder(
        provider=market.provider,
        kind=AdjustmentKind.CLAWBACK,
        reason=AdjustmentReason.FRAUD,
        amount_nano=SHARE,
        note="paid with a stolen card",
        customer=None,
    )
    adjustments.propose(order=order, proposed_by=operator, actor=OPERATOR, now=now)


@pytest.mark.parametrize("kind", [FactKind.CARD, FactKind.BANK])
def test_one_card_or_bank_account_on_both_sides_earns_nothing(shop, den, now, kind):
    topup, market = den
    for organization in (topup.organization, market.provider.organization):
        related.note(organization=organization, kind=kind, value="the same", source="test", now=now)

    assert burn(market, now) == [(0, "related_party")]
    assert payable(shop, now + timedelta(days=200)) == []


def test_one_person_on_both_sides_earns_nothing(shop, den, now):
    topup, market = den
    person = UserFactory()
    for organization in (topup.organization, market.provider.organization):
        MembershipFactory(organization=organization, user=person)

    assert burn(market, now) == [(0, "related_party")]
    assert payable(shop, now + timedelta(days=200)) == []


def test_a_stranger_on_paper_is_not_paid_before_the_dispute_comes(shop, den, now):
    """Nothing links the two: the money of a new customer matures after most disputes of stolen cards have come."""
    topup, market = den
    assert burn(market, now) == [(SHARE, "")]
    day_59 = now + timedelta(days=59)
    assert payable(shop, day_59) == []

    made = shop.double.control("dispute", charge=topup.charge)
    disputes.read(dispute=made["id"], now=day_59)
    assert payable(shop, now + timedelta(days=61)) == []
    claw_back(market, topup, now + timedelta(days=62))

    assert payable(shop, now + timedelta(days=400)) == []
    owner = market.provider.public_id
    assert [balance_of(f"provider_{kind}", owner) for kind in ("pending", "available", "receivable")] == [0, 0, 0]
    assert reconcile.differences(now=now + timedelta(days=62)) == []


def test_a_warning_is_enough_to_keep_it_back(shop, den, now):
    topup, market = den
    burn(market, now)
    made = shop.double.control("warning", charge=topup.charge)
    fraud_warnings.read(warning=made["id"], now=now + timedelta(days=50))

    assert payable(shop, now + timedelta(days=139)) == []
    claw_back(market, topup, now + timedelta(days=139))
    assert payable(shop, now + timedelta(days=400)) == []


def test_a_dispute_after_maturity_takes_what_is_not_sent_and_then_what_comes(shop, den, now):
    topup, market = den
    burn(market, now)
    matured = now + timedelta(days=60)
    maturity.mature(now=matured)

    made = shop.double.control("dispute", charge=topup.charge)
    disputes.read(dispute=made["id"], now=matured)
    claw_back(market, topup, matured)

    assert payable(shop, matured + timedelta(days=100)) == []
    assert balance_of("provider_available", market.provider.public_id) == 0
    assert reconcile.differences(now=matured) == []


def test_the_stolen_credit_that_is_left_is_gone_and_buying_more_is_refused(shop, den, now):
    topup, market = den
    burn(market, now)
    made = shop.double.control("dispute", charge=topup.charge)

    disputes.read(dispute=made["id"], now=now)

    owner = topup.organization.public_id
    assert (balance_of("customer_credit", owner), balance_of("customer_receivable", owner)) == (0, CHARGE)
    assert books_differ_by(topup) == 0
    with pytest.raises(topup_guard.SpendingStopped):
        shop.start(topup.organization, topup.created_by, amount=1000, now=now, key="more")


def test_the_same_card_at_the_next_organization_is_stopped(shop, den, now):
    topup, _ = den
    disputes.read(dispute=shop.double.control("dispute", charge=topup.charge)["id"], now=now)

    fresh, user = OrganizationFactory(created_at=now), UserFactory()
    second = shop.start(fresh, user, amount=1000, now=now)
    shop.post_page(second.checkout_url, "pay")
    topups.fulfil(topup_id=second.pk, now=now)
    risk.judge(organization_id=fresh.pk, now=now)

    fresh.refresh_from_db()
    assert fresh.stopped_for == "known_card"


@pytest.mark.parametrize("kind", [FactKind.ADDRESS, FactKind.CARD])
def test_promotional_credit_does_not_become_a_payout_at_a_linked_node(shop, now, kind):
    provider = shop.provider(earned_minor=0, now=now)
    Organization.objects.filter(pk=provider.organization_id).update(is_provider=True)
    fresh = OrganizationFactory(created_at=now)
    grants.grant_promo(organization=fresh, amount_nano=CHARGE, key="welcome", actor=SYSTEM_ACTOR, now=now)
    for organization in (fresh, Organization.objects.get(pk=provider.organization_id)):
        related.note(organization=organization, kind=kind, value="8.8.4.4", source="test", now=now)
    market = Market(customer=fresh, node=ServingNodeFactory(provider=provider), paid_nano=0, lease_nano=0)
    market.leases = market.lease(CHARGE)

    ((earned, withheld),) = burn(market, now)

    assert (earned, withheld) == (0, "linked_promo" if kind == FactKind.ADDRESS else "related_party")
    assert EarningMaturity.objects.count() == 0
    assert payable(shop, now + timedelta(days=200)) == []
