"""Promotional credit: spent first, gone at its end, never what a running request holds, never twice."""

from datetime import timedelta

import pytest

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import KeyReused
from portal.billing.models import LedgerAccount, LedgerTx, PromoGrant
from portal.billing.services import grants, leases, posting, reconcile
from portal.billing.services.grants import Gift
from portal.core.errors import InvalidValue
from portal.notifications.models import Message
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import Market
from tests.factories.payouts import balance_of
from tests.world import World

pytestmark = pytest.mark.django_db

DAY = timedelta(days=1)


def give(organization, nano, *, now, days=None, key="k"):
    ends = None if days is None else now + days * DAY
    return grants.give(organization=organization, gift=Gift(nano, ends), key=key, actor=SYSTEM_ACTOR, now=now)


def promo(organization):
    return balance_of("promo_credit", organization.public_id)


def test_a_gift_expires_at_its_end_and_not_before(now):
    organization = OrganizationFactory()
    give(organization, 100, now=now, days=2)

    assert grants.expire_due(now=now + 2 * DAY - timedelta(seconds=1)) == 0
    assert promo(organization) == 100
    assert grants.expire_due(now=now + 2 * DAY) == 1
    assert grants.expire_due(now=now + 3 * DAY) == 0

    assert (promo(organization), balance_of("breakage")) == (0, 100)
    grant = PromoGrant.objects.get()
    assert (grant.rest_nano, grant.expired_nano) == (0, 100)
    assert LedgerTx.objects.filter(kind="promo_expiry").count() == 1


def test_a_gift_without_an_end_stays(now):
    organization = OrganizationFactory()
    give(organization, 100, now=now)

    assert grants.expire_due(now=now + 10_000 * DAY) == 0
    assert promo(organization) == 100


def test_the_same_key_is_the_same_gift_and_another_amount_is_refused(now):
    organization = OrganizationFactory()
    first, second = (give(organization, 100, now=now, days=2) for _ in range(2))

    assert (first.pk, promo(organization)) == (second.pk, 100)
    with pytest.raises(KeyReused):
        give(organization, 101, now=now)
    assert promo(organization) == 100


def test_a_gift_cannot_end_before_it_begins(now):
    organization = OrganizationFactory()

    with pytest.raises(InvalidValue):
        give(organization, 100, now=now, days=0)
    assert PromoGrant.objects.count() == 0


def test_what_ends_first_is_spent_first(now):
    market = Market(paid_nano=0, lease_nano=0)
    late = give(market.customer, 1_000_000, now=now, days=9, key="late")
    early = give(market.customer, 400_000, now=now, days=3, key="early")
    market.leases = market.lease(1_400_000)
    market.serve(charge_nano=600_000)
    posting.post_usage(now=now)
    leases.LIFE.begin_closing(lease_ids=[lease.pk for lease in market.leases])
    leases.LIFE.finish(lease_id=market.leases[0].pk, last_seq=0, now=now)

    grants.expire_due(now=now + 3 * DAY)

    early.refresh_from_db()
    late.refresh_from_db()
    assert (early.rest_nano, early.expired_nano, late.rest_nano) == (0, 0, 800_000)
    assert promo(market.customer) == 800_000


def test_what_a_request_holds_expires_only_when_it_comes_back(now):
    market = Market(paid_nano=0, lease_nano=0)
    grant = give(market.customer, 1_000_000, now=now, days=1)
    (lease,) = market.lease(300_000)

    assert grants.expire(organization_id=market.customer.pk, now=now + DAY) == 700_000
    account = LedgerAccount.objects.get(kind="promo_credit")
    assert (account.credits - account.debits, account.held) == (300_000, 300_000)
    assert grants.expire(organization_id=market.customer.pk, now=now + DAY) == 0

    leases.LIFE.begin_closing(lease_ids=[lease.pk])
    leases.LIFE.finish(lease_id=lease.pk, last_seq=0, now=now)
    assert grants.expire(organization_id=market.customer.pk, now=now + DAY) == 300_000
    grant.refresh_from_db()
    assert (grant.rest_nano, grant.expired_nano, promo(market.customer)) == (0, 1_000_000, 0)
    assert reconcile.differences(now=now) == []


def test_owners_are_warned_once_before_the_end(world: World, now):
    organization = world.customer.organization
    give(organization, 100, now=now, days=10)

    assert grants.warn_due(now=now + 6 * DAY) == 0
    assert grants.warn_due(now=now + 7 * DAY) == 1
    assert grants.warn_due(now=now + 8 * DAY) == 0

    assert set(Message.objects.filter(template="promo_expires").values_list("to", flat=True)) == {
        world.customer.owner.email,
        world.customer.admin.email,
    }


def test_nobody_is_warned_of_a_gift_that_is_spent(world: World, now):
    organization = world.customer.organization
    give(organization, 100, now=now, days=3)
    grants.expire(organization_id=organization.pk, now=now + 3 * DAY)

    assert grants.warn_due(now=now + DAY) == 0
    assert Message.objects.count() == 0
