"""The provider's own words about itself."""

from dataclasses import dataclass
from datetime import datetime

from django.db import IntegrityError, transaction

from portal.accounts.models import Organization
from portal.accounts.services import organizations
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue
from portal.providers import locks
from portal.providers.models import Provider, ProviderKind, ProviderState
from portal.providers.rules import states
from portal.providers.rules.countries import require_country


class ProviderExists(Conflict):
    """The organization already has a provider's side."""

    code = "provider_exists"


@dataclass(frozen=True, slots=True)
class Profile:
    """Who the provider is."""

    legal_name: str
    contact_email: str
    country: str


def create_provider(
    *,
    organization: Organization,
    profile: Profile,
    kind: ProviderKind = ProviderKind.INDEPENDENT,
    actor: Actor,
    now: datetime,
) -> Provider:
    """Give the organization a provider's side, as a draft. Raises ProviderExists, InvalidValue."""
    organizations.require_active(organization)
    provider = Provider(organization=organization, kind=kind, created_at=now, **_fields(profile))
    try:
        with transaction.atomic():
            provider.save(force_insert=True)
            if not organization.is_provider:
                organizations.open_side(organization=organization, side="provider", actor=actor, now=now)
            _record(provider, "provider.created", actor=actor, now=now)
    except IntegrityError as error:
        raise ProviderExists("this organization is already a provider") from error
    return provider


def update_profile(*, provider_id: str, profile: Profile, actor: Actor, now: datetime) -> Provider:
    """Change the profile. Raises InvalidValue."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        organizations.require_active(provider.organization)
        fields = _fields(profile)
        for name, value in fields.items():
            setattr(provider, name, value)
        provider.save(update_fields=list(fields))
        _record(provider, "provider.updated", actor=actor, now=now)
    return provider


def submit_provider(*, provider_id: str, actor: Actor, now: datetime) -> Provider:
    """Hand the profile to the operator for approval. Raises ProviderMoveRefused."""
    with transaction.atomic():
        provider = locks.provider(provider_id)
        organizations.require_active(provider.organization)
        states.require_move(before=provider.state, after=ProviderState.SUBMITTED)
        provider.state, provider.state_reason = ProviderState.SUBMITTED, ""
        provider.save(update_fields=["state", "state_reason"])
        _record(provider, "provider.submitted", actor=actor, now=now)
    return provider


def _fields(profile: Profile) -> dict[str, str]:
    if not profile.legal_name.strip():
        raise InvalidValue("give the legal name", param="legal_name")
    if "@" not in profile.contact_email:
        raise InvalidValue("give an e-mail address", param="contact_email")
    return {
        "legal_name": profile.legal_name.strip()[:160],
        "contact_email": profile.contact_email.strip(),
        "country": require_country(profile.country),
    }


def _record(provider: Provider, event: str, *, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor, event=event, subject=provider.public_id, now=now, organization=provider.organization.public_id
    )
