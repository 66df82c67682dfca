"""Rows of the providers' room."""

import hashlib

import factory
from factory.django import DjangoModelFactory

from portal.providers.models import Agreement, AgreementAcceptance, Provider, ProviderKind, ProviderState
from tests.factories.accounts import JOINED, OrganizationFactory, UserFactory


class ProviderFactory(DjangoModelFactory):
    """An approved, identified, independent provider; `house=True` is the operator's own."""

    class Meta:
        model = Provider

    class Params:
        house = factory.Trait(kind=ProviderKind.HOUSE)
        contracted = factory.Trait(kind=ProviderKind.CONTRACTED)
        unidentified = factory.Trait(is_identified=False)
        draft = factory.Trait(state=ProviderState.DRAFT)

    organization = factory.SubFactory(OrganizationFactory, is_provider=True)
    state = ProviderState.APPROVED
    legal_name = factory.Sequence(lambda n: f"Provider {n} GmbH")
    contact_email = "ops@provider.example"
    country = "DE"
    is_identified = True
    created_at = JOINED


class AgreementFactory(DjangoModelFactory):
    class Meta:
        model = Agreement

    version = factory.Sequence(lambda n: f"2026-{n}")
    text = "The provider serves requests and is paid for them."
    sha256 = factory.LazyAttribute(lambda row: hashlib.sha256(row.text.encode()).hexdigest())
    effective_from = JOINED


class AgreementAcceptanceFactory(DjangoModelFactory):
    class Meta:
        model = AgreementAcceptance

    provider = factory.SubFactory(ProviderFactory)
    agreement = factory.SubFactory(AgreementFactory)
    accepted_by = factory.SubFactory(UserFactory)
    accepted_at = JOINED
