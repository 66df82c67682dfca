"""The people of the tests: an operator, a provider, a customer, an organization that is both, and a stranger.

The fixture `world` of tests/conftest.py builds it.
"""

from dataclasses import dataclass

from django.test import Client

from portal.accounts.models import Organization, Role, User
from portal.providers.models import Provider, ProviderState
from tests.factories.accounts import JOINED, MembershipFactory, OrganizationFactory, UserFactory


@dataclass(frozen=True, slots=True)
class Team:
    """An organization with one person for each role."""

    organization: Organization
    owner: User
    admin: User
    member: User
    reader: User


@dataclass(frozen=True, slots=True)
class World:
    """Who is there. `stranger` owns `other`, which is customer and provider and has nothing to do with the teams."""

    operator: User
    customer: Team
    supplier: Team
    provider: Provider
    both: Team
    both_provider: Provider
    stranger: User
    other: Organization

    def client(self, user: User | None = None, organization: Organization | None = None) -> Client:
        """Return a browser, signed in as `user` and acting for `organization` (else for the person's first one)."""
        browser = Client()
        if user is not None:
            browser.force_login(user)
        if organization is not None:
            session = browser.session
            session["organization"] = organization.public_id
            session.save()
        return browser


def build_world() -> World:
    """Build the world."""
    both, supplier = team("Both Ltd", is_provider=True), team("Supply AG", is_customer=False, is_provider=True)
    other = OrganizationFactory(name="Other Inc", is_provider=True)
    stranger = UserFactory(email="stranger@other.example")
    MembershipFactory(organization=other, user=stranger, role=Role.OWNER)
    provider_of(other)
    return World(
        operator=UserFactory(email="operator@pool.example", is_operator=True),
        customer=team("Custom GmbH"),
        supplier=supplier,
        provider=provider_of(supplier.organization),
        both=both,
        both_provider=provider_of(both.organization),
        stranger=stranger,
        other=other,
    )


def team(name: str, *, is_customer: bool = True, is_provider: bool = False) -> Team:
    """Make an organization with an owner, an admin, a member and a reader."""
    organization = OrganizationFactory(name=name, is_customer=is_customer, is_provider=is_provider)
    host = name.lower().replace(" ", "-")
    people = {
        role: MembershipFactory(organization=organization, user__email=f"{role.value}@{host}.example", role=role).user
        for role in Role
    }
    return Team(
        organization=organization,
        owner=people[Role.OWNER],
        admin=people[Role.ADMIN],
        member=people[Role.MEMBER],
        reader=people[Role.READ_ONLY],
    )


def provider_of(organization: Organization) -> Provider:
    """Give the organization an approved provider profile."""
    return Provider.objects.create(
        organization=organization,
        state=ProviderState.APPROVED,
        legal_name=f"{organization.name} Services",
        contact_email="ops@example.com",
        country=organization.country,
        created_at=JOINED,
    )
