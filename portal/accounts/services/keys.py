"""Create and revoke API keys. The gateway hears of both through the bus in the same transaction."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import ApiKey, Organization, User
from portal.accounts.rules import key_terms, key_text
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue
from portal.integrations import bus

_MAX_NAME = 80
_MAX_LIVE_KEYS = 1000


class KeyAlreadyRevoked(Conflict):
    """The key has been revoked before."""

    code = "key_already_revoked"


class TooManyKeys(Conflict):
    """The organization has as many live keys as it may have."""

    code = "too_many_keys"


@dataclass(frozen=True, slots=True)
class CreatedKey:
    """The stored key and its text, which exists only here."""

    key: ApiKey
    text: str


def create_key(  # noqa: PLR0913  each argument is a term of the key that people choose
    *,
    organization: Organization,
    name: str,
    node_classes: Sequence[str],
    monthly_cap_nano: int | None,
    expires_at: datetime | None,
    created_by: User | None,
    actor: Actor,
    now: datetime,
    tools_on_any_class: bool = False,
) -> CreatedKey:
    """Create a key. Raises InvalidValue (naming the field), TooManyKeys, OrganizationSuspended."""
    terms = _checked(name, node_classes, monthly_cap_nano, expires_at, now)
    made = key_text.new_key()
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        if ApiKey.objects.filter(organization=row, revoked_at=None).count() >= _MAX_LIVE_KEYS:
            raise TooManyKeys(f"There are {_MAX_LIVE_KEYS} live keys already.", fix="Revoke keys that nobody uses.")
        key = ApiKey.objects.create(
            organization=row,
            public_id=made.public_id,
            digest=key_text.digest(made.text),
            name=name.strip(),
            node_classes=terms,
            tools_on_any_class=tools_on_any_class,
            monthly_cap_nano=monthly_cap_nano,
            expires_at=expires_at,
            created_by=created_by,
            created_at=now,
        )
        audit.record(
            actor=actor,
            event="api_key.created",
            subject=key.public_id,
            organization=row.public_id,
            detail={"name": key.name, "node_classes": terms, "monthly_cap_nano": monthly_cap_nano},
            now=now,
        )
        bus.announce("keys", key.public_id)
    return CreatedKey(key=key, text=made.text)


def revoke_key(*, organization: Organization, public_id: str, actor: Actor, now: datetime) -> ApiKey:
    """Revoke a key for good. Raises NotFound, KeyAlreadyRevoked."""
    with transaction.atomic():
        key = locks.api_key(organization=organization, public_id=public_id)
        if key.revoked_at is not None:
            raise KeyAlreadyRevoked(f"{key.name} was revoked before.")
        key.revoked_at = now
        key.save(update_fields=["revoked_at"])
        audit.record(
            actor=actor,
            event="api_key.revoked",
            subject=key.public_id,
            organization=organization.public_id,
            detail={"name": key.name},
            now=now,
        )
        bus.announce("keys", key.public_id)
    return key


def _checked(
    name: str, node_classes: Sequence[str], cap: int | None, expires_at: datetime | None, now: datetime
) -> list[str]:
    if not name.strip() or len(name.strip()) > _MAX_NAME:
        raise InvalidValue(f"A name has 1 to {_MAX_NAME} characters.", param="name")
    if cap is not None and cap <= 0:
        raise InvalidValue("A monthly cap is above zero; leave it empty for none.", param="monthly_cap")
    if expires_at is not None and expires_at <= now:
        raise InvalidValue("The expiry lies in the past.", param="expires_at")
    try:
        terms = key_terms.in_order(list(node_classes))
    except ValueError as error:
        raise InvalidValue(str(error), param="node_classes") from error
    if not terms:
        raise InvalidValue("Allow at least one class of nodes.", param="node_classes")
    return terms
