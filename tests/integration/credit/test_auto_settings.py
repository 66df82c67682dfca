"""Which card automatic purchases use, and what may be set."""

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import AutoTopUp, CustomerCard, TopUp
from portal.billing.services import auto_settings, cards, topups
from portal.billing.services.auto_settings import AutoTerms, CardRemoved
from portal.core.errors import InvalidValue, NotFound
from portal.integrations import stripe
from tests.integration.credit import saving

pytestmark = pytest.mark.django_db


def test_a_card_is_saved_only_where_the_buyer_said_so(shop, now):
    topup = shop.buy(amount=1000, now=now)
    topups.fulfil(topup_id=topup.pk, now=now)
    organization = saving.customer(shop, now=now)

    (card,) = CustomerCard.objects.all()
    assert (card.organization_id, card.brand, card.last4) == (organization.pk, "visa", "4242")


def test_a_removed_card_is_forgotten_and_never_charged_again(shop, low, now):
    (card,) = CustomerCard.objects.all()

    cards.remove(organization=low, public_id=card.public_id, actor=SYSTEM_ACTOR, now=now)

    plan = AutoTopUp.objects.get()
    assert (plan.is_on, plan.card_id, plan.off_reason) == (False, None, "its card was removed")
    assert cards.sweep(now=now) == 1
    assert stripe.payments().saved_cards(customer=TopUp.objects.get().stripe_customer) == []
    assert cards.sweep(now=now) == 0
    terms = AutoTerms(threshold_minor=500, amount_minor=2000, monthly_cap_minor=9000, card=card.public_id)
    with pytest.raises(CardRemoved):
        auto_settings.turn_on(
            organization=low, terms=terms, user=TopUp.objects.get().created_by, actor=SYSTEM_ACTOR, now=now
        )


def test_another_organizations_card_does_not_exist(shop, low, now):
    stranger = saving.customer(shop, now=now)
    (theirs,) = CustomerCard.objects.filter(organization=stranger)

    with pytest.raises(NotFound):
        cards.remove(organization=low, public_id=theirs.public_id, actor=SYSTEM_ACTOR, now=now)
    assert CustomerCard.objects.get(pk=theirs.pk).removed_at is None


@pytest.mark.parametrize(
    ("changes", "param"),
    [
        ({"amount_minor": 499}, "amount"),
        ({"amount_minor": 1_000_001}, "amount"),
        ({"threshold_minor": 0}, "threshold"),
        ({"monthly_cap_minor": 1999}, "monthly_cap"),
    ],
)
def test_settings_that_cannot_be_meant_are_refused_and_change_nothing(shop, low, now, changes, param):
    (card,) = CustomerCard.objects.all()
    given = {"threshold_minor": 500, "amount_minor": 2000, "monthly_cap_minor": 10_000, "card": card.public_id}

    with pytest.raises(InvalidValue) as refusal:
        auto_settings.turn_on(
            organization=low,
            terms=AutoTerms(**(given | changes)),
            user=TopUp.objects.get().created_by,
            actor=SYSTEM_ACTOR,
            now=now,
        )

    assert refusal.value.param == param
    plan = AutoTopUp.objects.get()
    assert (plan.threshold_minor, plan.amount_minor, plan.monthly_cap_minor) == (500, 2000, 10_000)
