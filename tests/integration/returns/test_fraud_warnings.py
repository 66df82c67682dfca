"""A fraud warning freezes spending at once; an operator refunds what is unused or dismisses it."""

import pytest

from portal.accounts.models import Organization
from portal.audit.services import Actor
from portal.billing.models import FraudWarning, Refund
from portal.billing.services import fraud_warnings, refund_reading, refunds, topup_guard
from portal.notifications.models import Message
from portal.notifications.rendering import render
from tests.factories.accounts import MembershipFactory, UserFactory
from tests.integration.returns.till import paid, spend, standing

pytestmark = pytest.mark.django_db
OPERATOR = Actor(public_id="user_operator")


def warned(shop, topup, now) -> FraudWarning:
    """Return the warning as it is after it was read twice."""
    made = shop.double.control("warning", charge=topup.charge)
    for _ in range(2):
        found = fraud_warnings.read(warning=made["id"], now=now)
    assert found is not None
    return found


def stopped_for(topup) -> str:
    return Organization.objects.get(pk=topup.organization_id).stopped_for


def test_spending_and_buying_freeze_at_once(shop, now):
    topup = paid(shop, amount=5000, now=now)
    owner, operator = MembershipFactory(organization=topup.organization, role="owner"), UserFactory(is_operator=True)

    warned(shop, topup, now)

    assert (FraudWarning.objects.count(), stopped_for(topup), standing(topup)) == (1, "fraud_warning", (5000, 0, 0))
    told = {message.to: render(message) for message in Message.objects.filter(template__endswith="_stopped")}
    assert sorted(told) == sorted([owner.user.email, operator.email])
    assert "fraud" not in told[owner.user.email].text
    assert "requests are refused and nothing can be bought" in told[owner.user.email].text
    assert topup.public_id in told[operator.email].text
    with pytest.raises(topup_guard.SpendingStopped) as refusal:
        shop.start(topup.organization, topup.created_by, amount=1000, now=now, key="more")
    assert refusal.value.code == "spending_stopped"


def test_refunding_the_unused_part_lets_the_organization_go_on(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=1500, now=now)
    row = warned(shop, topup, now)

    fraud_warnings.refund_unused(stripe_warning=row.stripe_warning, note="stolen", actor=OPERATOR, now=now)
    refund_reading.sweep(now=now)

    assert (Refund.objects.get().amount_minor, Refund.objects.get().state) == (3500, "succeeded")
    assert (standing(topup), stopped_for(topup)) == ((0, 0, 0), "")
    with pytest.raises(fraud_warnings.AlreadyDecided):
        fraud_warnings.dismiss(stripe_warning=row.stripe_warning, note="", actor=OPERATOR, now=now)


def test_where_nothing_is_left_the_warning_is_decided_all_the_same(shop, now):
    topup = paid(shop, amount=5000, now=now)
    spend(topup, minor=5000, now=now)
    row = warned(shop, topup, now)

    made = fraud_warnings.refund_unused(stripe_warning=row.stripe_warning, note="", actor=OPERATOR, now=now)

    row.refresh_from_db()
    assert (made, row.state, stopped_for(topup)) == (None, "refunded", "")


def test_a_dismissed_warning_stays_dismissed(shop, now):
    topup = paid(shop, amount=5000, now=now)
    row = warned(shop, topup, now)

    fraud_warnings.dismiss(stripe_warning=row.stripe_warning, note="known", actor=OPERATOR, now=now)
    fraud_warnings.read(warning=row.stripe_warning, now=now)

    row.refresh_from_db()
    assert (row.state, row.decided_by, stopped_for(topup)) == ("dismissed", "user_operator", "")


def test_automatic_refunds_wait_while_it_is_open(shop, now, settings):
    settings.REFUNDS = "automatic"
    topup = paid(shop, amount=5000, now=now)
    warned(shop, topup, now)

    wish = refunds.ask(
        organization=Organization.objects.get(pk=topup.organization_id),
        topup_public_id=topup.public_id,
        amount_minor=5000,
        note="",
        actor=OPERATOR,
        now=now,
    )

    assert wish.state == "requested"
