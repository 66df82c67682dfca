"""A key that spends far more today than in the weeks before: its owners hear of it once a day."""

from datetime import date, timedelta

import pytest

from portal.accounts.models import AlertKind, KeyAlert, Organization
from portal.billing.models import SpendDay
from portal.billing.services import spend_watch
from portal.notifications.models import Message
from tests.factories.accounts import ApiKeyFactory
from tests.world import World

UNIT = 1_000_000_000


@pytest.fixture
def key(world: World):
    return ApiKeyFactory(organization=world.customer.organization, name="production")


def spend(key, day: date, nano: int, model: int = 1):
    SpendDay.objects.create(
        day=day, organization_id=key.organization_id, api_key_id=key.pk, model_id=model, charge_nano=nano
    )


def test_a_spike_is_told_once_with_its_numbers(world: World, key, now):
    for days_ago in (10, 4):
        spend(key, now.date() - timedelta(days=days_ago), 10 * UNIT)
    spend(key, now.date(), 20 * UNIT)
    spend(key, now.date(), 1 * UNIT, model=2)

    assert spend_watch.watch(now=now) == 1
    assert spend_watch.watch(now=now + timedelta(hours=1)) == 0

    alert = KeyAlert.objects.get()
    assert (alert.kind, alert.subject) == (AlertKind.SPEND_SPIKE, "2026-11-02")
    assert alert.detail == {"spent": "21 USD", "usual": "2 USD", "days": 10}
    message = Message.objects.get()
    assert (message.to, message.template) == (world.customer.owner.email, "key_spend_spike")


def test_another_keys_spend_is_no_baseline(world: World, key, now):
    other = ApiKeyFactory(organization=world.customer.organization)
    for days_ago in range(1, 10):
        spend(other, now.date() - timedelta(days=days_ago), UNIT)
    spend(key, now.date(), 500 * UNIT)

    assert spend_watch.watch(now=now) == 0


def test_where_owners_want_none_they_hear_none(key, now):
    Organization.objects.filter(pk=key.organization_id).update(alerts_spend_spike=False)
    for days_ago in range(1, 10):
        spend(key, now.date() - timedelta(days=days_ago), UNIT)
    spend(key, now.date(), 50 * UNIT)

    assert spend_watch.watch(now=now) == 0
    assert not KeyAlert.objects.exists()
    assert not Message.objects.exists()
