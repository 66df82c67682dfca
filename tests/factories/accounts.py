"""Rows of the accounts room."""

from datetime import UTC, datetime

import factory
from factory.django import DjangoModelFactory

from portal.accounts.models import ApiKey, Invitation, Membership, Organization, Project, Role, User
from portal.accounts.rules import key_text

JOINED = datetime(2026, 10, 1, 9, 0, tzinfo=UTC)


class UserFactory(DjangoModelFactory):
    class Meta:
        model = User
        skip_postgeneration_save = True

    email = factory.Sequence(lambda n: f"person{n}@example.com")
    name = factory.Sequence(lambda n: f"Person {n}")
    password = factory.django.Password("correct horse battery")
    created_at = JOINED


class OrganizationFactory(DjangoModelFactory):
    class Meta:
        model = Organization

    name = factory.Sequence(lambda n: f"Organization {n}")
    country = "DE"
    created_at = JOINED


class MembershipFactory(DjangoModelFactory):
    class Meta:
        model = Membership

    organization = factory.SubFactory(OrganizationFactory)
    user = factory.SubFactory(UserFactory)
    role = Role.OWNER
    created_at = JOINED


class InvitationFactory(DjangoModelFactory):
    class Meta:
        model = Invitation

    organization = factory.SubFactory(OrganizationFactory)
    email = factory.Sequence(lambda n: f"invited{n}@example.com")
    role = Role.MEMBER
    token_hash = factory.Sequence(lambda n: key_text.digest(f"invitation {n}"))
    invited_by = factory.SubFactory(UserFactory)
    created_at = JOINED
    expires_at = datetime(2099, 1, 1, tzinfo=UTC)


class ProjectFactory(DjangoModelFactory):
    class Meta:
        model = Project

    organization = factory.SubFactory(OrganizationFactory)
    name = factory.Sequence(lambda n: f"project {n}")
    created_at = JOINED


class ApiKeyFactory(DjangoModelFactory):
    """A key whose text is `<key>.text`, which only tests remember."""

    class Meta:
        model = ApiKey

    class Params:
        made = factory.LazyFunction(key_text.new_key)

    organization = factory.SubFactory(OrganizationFactory)
    public_id = factory.LazyAttribute(lambda key: key.made.public_id)
    digest = factory.LazyAttribute(lambda key: key_text.digest(key.made.text))
    name = factory.Sequence(lambda n: f"key {n}")
    node_classes = ["house", "contracted"]
    created_at = JOINED
