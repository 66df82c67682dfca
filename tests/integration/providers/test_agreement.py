"""The agreement: published once, accepted by name, in force from its moment on."""

from datetime import timedelta

import pytest

from portal.audit.services import Actor
from portal.core.errors import InvalidValue
from portal.providers.models import Agreement, AgreementAcceptance
from portal.providers.selectors import agreements as selectors
from portal.providers.services import agreements
from tests.factories.accounts import UserFactory
from tests.factories.providers import AgreementFactory, ProviderFactory

ACTOR = Actor(public_id="user_owner", address="203.0.113.5")


@pytest.fixture
def provider(db):
    return ProviderFactory()


def accept(provider, version, now):
    return agreements.accept_agreement(
        provider_id=provider.public_id, version=version, accepted_by=UserFactory(), actor=ACTOR, now=now
    )


def test_where_none_is_published_none_is_owed(provider, now):
    assert selectors.current_agreement(now=now) is None
    assert selectors.has_accepted(provider=provider, now=now)


def test_an_acceptance_says_who_when_and_from_where(provider, now):
    agreement = AgreementFactory()
    assert not selectors.has_accepted(provider=provider, now=now)

    row = accept(provider, agreement.version, now)

    assert (row.accepted_at, row.address, row.agreement) == (now, "203.0.113.5", agreement)
    assert selectors.has_accepted(provider=provider, now=now)
    assert not selectors.has_accepted(provider=ProviderFactory(), now=now)


def test_accepting_twice_is_one_acceptance(provider, now):
    agreement = AgreementFactory()

    assert accept(provider, agreement.version, now) == accept(provider, agreement.version, now + timedelta(days=1))
    assert AgreementAcceptance.objects.get().accepted_at == now


def test_only_the_version_in_force_can_be_accepted(provider, now):
    old = AgreementFactory(effective_from=now - timedelta(days=9))
    AgreementFactory(effective_from=now)
    future = AgreementFactory(effective_from=now + timedelta(days=1))

    for version in (old.version, future.version, "none", ""):
        with pytest.raises(agreements.AgreementChanged):
            accept(provider, version, now)

    assert not AgreementAcceptance.objects.exists()


def test_a_new_version_is_owed_again_from_its_moment_on(provider, now):
    first = AgreementFactory(effective_from=now)
    accept(provider, first.version, now)
    AgreementFactory(effective_from=now + timedelta(hours=1))

    assert selectors.has_accepted(provider=provider, now=now + timedelta(minutes=59))
    assert not selectors.has_accepted(provider=provider, now=now + timedelta(hours=1))


def test_a_version_is_published_once(db, now):
    facts = {"version": "2027-1", "effective_from": now, "actor": ACTOR, "now": now}
    made = agreements.publish_agreement(text="We serve.", **facts)

    assert made.sha256 == "1a9285081270ede1622bd5e0649ff3b056f9373be55d68fcd9f5f8dbbac39318"
    with pytest.raises(agreements.AgreementExists):
        agreements.publish_agreement(text="Other words.", **facts)
    assert Agreement.objects.get().text == "We serve."
    with pytest.raises(InvalidValue):
        agreements.publish_agreement(text=" ", **{**facts, "version": "2027-2"})
