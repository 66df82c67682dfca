"""Providers: profile, approval, rights, identity."""

import pytest

from portal.accounts.models import OrganizationState
from portal.accounts.services.organizations import OrganizationSuspended
from portal.audit.models import AuditEvent
from portal.audit.services import Actor
from portal.core.errors import InvalidValue, NotFound
from portal.providers.models import Provider, ProviderKind, ProviderState
from portal.providers.rules.states import PROVIDER_MOVES, ProviderMoveRefused
from portal.providers.selectors import providers as selectors
from portal.providers.services import profile as services
from portal.providers.services import review
from tests.factories.accounts import OrganizationFactory
from tests.factories.providers import ProviderFactory

ACTOR = Actor(public_id="user_owner", address="203.0.113.5")
PROFILE = services.Profile(legal_name=" Acme GmbH ", contact_email="ops@acme.example", country="de")


def test_the_first_profile_makes_an_organization_a_provider(db, now):
    organization = OrganizationFactory(is_provider=False)

    provider = services.create_provider(organization=organization, profile=PROFILE, actor=ACTOR, now=now)

    assert (provider.state, provider.kind, provider.legal_name, provider.country) == (
        "draft",
        "independent",
        "Acme GmbH",
        "DE",
    )
    organization.refresh_from_db()
    assert organization.is_provider
    assert AuditEvent.objects.filter(event="provider.created", organization=organization.public_id).count() == 1


def test_an_organization_is_one_provider(db, now):
    existing = ProviderFactory()

    with pytest.raises(services.ProviderExists):
        services.create_provider(organization=existing.organization, profile=PROFILE, actor=ACTOR, now=now)

    assert Provider.objects.count() == 1


@pytest.mark.parametrize(
    ("change", "param"),
    [
        ({"legal_name": " "}, "legal_name"),
        ({"contact_email": "nobody"}, "contact_email"),
        ({"country": "Germany"}, "country"),
        ({"country": "1x"}, "country"),
    ],
)
def test_a_wrong_profile_is_named(db, now, change, param):
    provider = ProviderFactory(draft=True)
    given = services.Profile(**{"legal_name": "A", "contact_email": "a@b.example", "country": "FR", **change})

    with pytest.raises(InvalidValue) as refusal:
        services.update_profile(provider_id=provider.public_id, profile=given, actor=ACTOR, now=now)

    assert refusal.value.param == param
    assert Provider.objects.get().country == "DE"


def test_a_suspended_organization_changes_nothing(db, now):
    provider = ProviderFactory(draft=True, organization__state=OrganizationState.SUSPENDED)

    with pytest.raises(OrganizationSuspended):
        services.submit_provider(provider_id=provider.public_id, actor=ACTOR, now=now)

    provider.refresh_from_db()
    assert provider.state == "draft"


def test_from_draft_to_approved_and_back(db, now):
    row = ProviderFactory(draft=True)
    known = {"provider_id": row.public_id, "actor": ACTOR, "now": now}

    assert services.submit_provider(**known).state == "submitted"
    rejected = review.reject_provider(reason="Which address?", **known)
    assert (rejected.state, rejected.state_reason) == ("rejected", "Which address?")
    assert services.submit_provider(**known).state_reason == ""
    assert review.approve_provider(**known).state == "approved"
    assert review.suspend_provider(reason="Fraud", **known).state_reason == "Fraud"
    assert review.approve_provider(**known).state_reason == ""


@pytest.mark.parametrize("decide", [review.reject_provider, review.suspend_provider])
def test_a_refusal_needs_a_reason(db, now, decide):
    row = ProviderFactory(state=ProviderState.SUBMITTED if decide is review.reject_provider else ProviderState.APPROVED)

    with pytest.raises(InvalidValue):
        decide(provider_id=row.public_id, reason=" ", actor=ACTOR, now=now)

    assert Provider.objects.get().state == row.state


def test_moves_off_the_table_are_refused(db, now):
    assert set(PROVIDER_MOVES) == set(ProviderState.values)
    row = ProviderFactory()

    with pytest.raises(ProviderMoveRefused):
        services.submit_provider(provider_id=row.public_id, actor=ACTOR, now=now)
    with pytest.raises(ProviderMoveRefused):
        review.reject_provider(provider_id=row.public_id, reason="x", actor=ACTOR, now=now)


def test_rights_are_set_and_audited(db, now):
    row = ProviderFactory()

    review.set_rights(
        provider_id=row.public_id,
        kind=ProviderKind.CONTRACTED,
        may_use_external_engine=True,
        actor=ACTOR,
        now=now,
    )

    row.refresh_from_db()
    assert (row.kind, row.may_use_external_engine) == ("contracted", True)
    details = dict(AuditEvent.objects.values_list("event", "detail"))
    assert details["provider.kind_set"] == {"before": "independent", "after": "contracted"}
    assert details["provider.external_engine_set"] == {"before": False, "after": True}


def test_an_identity_is_noted_once(db, now):
    row = ProviderFactory(unidentified=True)
    for _ in range(2):
        review.set_identity(provider_id=row.public_id, is_identified=True, actor=ACTOR, now=now)

    assert Provider.objects.get().is_identified
    assert AuditEvent.objects.filter(event="provider.identity_set").count() == 1


def test_an_unknown_provider_is_named_as_such(db, now):
    with pytest.raises(NotFound):
        review.approve_provider(provider_id="prov_nobody", actor=ACTOR, now=now)
    with pytest.raises(NotFound):
        selectors.provider("prov_nobody")


def test_the_operators_list(db):
    first, second = ProviderFactory(), ProviderFactory(state=ProviderState.SUBMITTED)

    assert set(selectors.providers_of_operator()) == {first, second}
    assert list(selectors.providers_of_operator(state="submitted")) == [second]
    assert selectors.provider_of(organization=OrganizationFactory()) is None
