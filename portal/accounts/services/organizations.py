"""Begin an organization, turn its sides on, suspend it and let it act again."""

from datetime import datetime

from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import Membership, Organization, OrganizationState, Role, User
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Forbidden, InvalidValue
from portal.integrations import bus

_MAX_NAME = 120


class OrganizationSuspended(Forbidden):
    """The operator has suspended the organization; it can be read but not changed."""

    code = "organization_suspended"


def require_active(organization: Organization) -> None:
    """Refuse a change by a suspended organization. Raises OrganizationSuspended."""
    if organization.state != OrganizationState.ACTIVE:
        raise OrganizationSuspended(
            f"{organization.name} is suspended.", fix="Ask the operator of this pool what has to happen first."
        )


def create_organization(
    *,
    name: str,
    owner: User,
    country: str,
    now: datetime,
    is_provider: bool = False,
    is_customer: bool = True,
) -> Organization:
    """Create an organization whose first owner is `owner`. Raises InvalidValue."""
    name = name.strip()
    if not name or len(name) > _MAX_NAME:
        raise InvalidValue(f"A name has 1 to {_MAX_NAME} characters.", param="name")
    if not (is_customer or is_provider):
        raise InvalidValue("An organization is a customer, a provider or both.", param="is_customer")
    with transaction.atomic():
        organization = Organization.objects.create(
            name=name, country=country.upper(), is_customer=is_customer, is_provider=is_provider, created_at=now
        )
        Membership.objects.create(organization=organization, user=owner, role=Role.OWNER, created_at=now)
        audit.record(
            actor=Actor(public_id=owner.public_id),
            event="organization.created",
            subject=organization.public_id,
            organization=organization.public_id,
            detail={"name": name, "is_customer": is_customer, "is_provider": is_provider},
            now=now,
        )
    return organization


def rename_organization(*, organization: Organization, name: str, actor: Actor, now: datetime) -> Organization:
    """Give the organization another name. Raises InvalidValue, OrganizationSuspended."""
    name = name.strip()
    if not name or len(name) > _MAX_NAME:
        raise InvalidValue(f"A name has 1 to {_MAX_NAME} characters.", param="name")
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        before, row.name = row.name, name
        row.save(update_fields=["name"])
        audit.record(
            actor=actor,
            event="organization.renamed",
            subject=row.public_id,
            organization=row.public_id,
            detail={"from": before, "to": name},
            now=now,
        )
    return row


def open_side(*, organization: Organization, side: str, actor: Actor, now: datetime) -> Organization:
    """Let the organization also be a `customer` or a `provider`. Raises InvalidValue, OrganizationSuspended."""
    if side not in {"customer", "provider"}:
        raise InvalidValue(f"An organization has no {side} side.", param="side")
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        setattr(row, f"is_{side}", True)
        row.save(update_fields=[f"is_{side}"])
        audit.record(
            actor=actor,
            event=f"organization.{side}_side_opened",
            subject=row.public_id,
            organization=row.public_id,
            now=now,
        )
    return row


def suspend_organization(*, public_id: str, reason: str, actor: Actor, now: datetime) -> Organization:
    """Stop the organization: its keys are refused and its pages are read-only."""
    return _move(public_id=public_id, state=OrganizationState.SUSPENDED, reason=reason, actor=actor, now=now)


def reinstate_organization(*, public_id: str, reason: str, actor: Actor, now: datetime) -> Organization:
    """Let a suspended organization act again."""
    return _move(public_id=public_id, state=OrganizationState.ACTIVE, reason=reason, actor=actor, now=now)


def _move(*, public_id: str, state: OrganizationState, reason: str, actor: Actor, now: datetime) -> Organization:
    with transaction.atomic():
        row = locks.organization_by_public_id(public_id=public_id)
        row.state = state
        row.save(update_fields=["state"])
        audit.record(
            actor=actor,
            event=f"organization.{state.value}",
            subject=row.public_id,
            organization=row.public_id,
            detail={"reason": reason},
            now=now,
        )
        bus.announce("organizations", row.public_id)
    return row
