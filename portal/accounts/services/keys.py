"""Create, change and revoke API keys. The gateway hears of it through the bus in the same transaction."""

from dataclasses import asdict, dataclass
from datetime import datetime

from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import ApiKey, Organization, Project, User
from portal.accounts.rules import key_terms, key_text
from portal.accounts.rules.key_terms import KeyTerms
from portal.accounts.rules.terms import Budget, LimitTerms
from portal.accounts.services.organizations import require_active
from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue, NotFound
from portal.integrations import bus

_MAX_LIVE_KEYS = 1000
_LIMITS = ("requests_per_minute", "tokens_per_minute", "parallel_requests")
_PLAIN = ("name", "allows_tools", "tools_on_any_class", "is_private_only", "expires_at")


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


def create_key(
    *, organization: Organization, terms: KeyTerms, created_by: User | None, actor: Actor, now: datetime
) -> CreatedKey:
    """Create a key. Raises InvalidValue (naming the field), TooManyKeys, OrganizationSuspended, ProjectArchived."""
    terms = key_terms.checked(terms)
    key_terms.require_future(terms.expires_at, now=now)
    made = key_text.new_key()
    with transaction.atomic():
        row = locks.organization(organization_id=organization.pk)
        require_active(row)
        if ApiKey.objects.filter(organization=row, revoked_at=None).count() >= _MAX_LIVE_KEYS:
            raise TooManyKeys(f"There are {_MAX_LIVE_KEYS} live keys already.", fix="Revoke keys that nobody uses.")
        key = ApiKey(
            organization=row,
            public_id=made.public_id,
            digest=key_text.digest(made.text),
            created_by=created_by,
            created_at=now,
        )
        _apply(key, terms)
        key.save()
        record_change(key, "api_key.created", actor=actor, detail=described(terms), now=now)
    return CreatedKey(key=key, text=made.text)


def change_key(*, organization: Organization, public_id: str, terms: KeyTerms, actor: Actor, now: datetime) -> ApiKey:
    """Give a live key other terms. Raises NotFound, InvalidValue, KeyAlreadyRevoked, OrganizationSuspended."""
    terms = key_terms.checked(terms)
    with transaction.atomic():
        require_active(locks.organization(organization_id=organization.pk))
        key = locks.api_key(organization=organization, public_id=public_id)
        require_live(key)
        before = terms_of(key)
        if terms.expires_at != before.expires_at:
            key_terms.require_future(terms.expires_at, now=now)
        if terms == before:
            return key
        _apply(key, terms)
        key.save()
        detail: dict[str, object] = {"from": described(before), "to": described(terms)}
        record_change(key, "api_key.changed", actor=actor, detail=detail, now=now)
    return key


def revoke_key(*, organization: Organization, public_id: str, actor: Actor, now: datetime) -> ApiKey:
    """Revoke a key for good, every secret of it. Raises NotFound, KeyAlreadyRevoked."""
    with transaction.atomic():
        key = locks.api_key(organization=organization, public_id=public_id)
        require_live(key)
        key.revoked_at = now
        key.save(update_fields=["revoked_at"])
        record_change(key, "api_key.revoked", actor=actor, detail={"name": key.name}, now=now)
    return key


def require_live(key: ApiKey) -> None:
    """Refuse a key that has been revoked. Raises KeyAlreadyRevoked."""
    if key.revoked_at is not None:
        raise KeyAlreadyRevoked(f"{key.name} was revoked before.")


def terms_of(key: ApiKey) -> KeyTerms:
    """Return the terms that the key has now."""
    return KeyTerms(
        name=key.name,
        node_classes=tuple(key.node_classes),
        budget=Budget(cap_nano=key.budget_cap_nano, period=key.budget_period),
        limits=LimitTerms(*(getattr(key, name) for name in _LIMITS)),
        expires_at=key.expires_at,
        project=key.project.public_id if key.project else None,
        allows_tools=key.allows_tools,
        tools_on_any_class=key.tools_on_any_class,
        is_private_only=key.is_private_only,
        allowed_models=None if key.allowed_models is None else tuple(key.allowed_models),
        networks=tuple(key.networks),
        countries=None if key.countries is None else tuple(key.countries),
    )


def described(terms: KeyTerms) -> dict[str, object]:
    """Return the terms as the audit log keeps them."""
    return {**asdict(terms), "expires_at": terms.expires_at.isoformat() if terms.expires_at else None}


def _apply(key: ApiKey, terms: KeyTerms) -> None:
    for name in _PLAIN:
        setattr(key, name, getattr(terms, name))
    for name in _LIMITS:
        setattr(key, name, getattr(terms.limits, name))
    key.budget_cap_nano, key.budget_period = terms.budget.cap_nano, terms.budget.period
    key.node_classes, key.networks = list(terms.node_classes), list(terms.networks)
    key.allowed_models = None if terms.allowed_models is None else list(terms.allowed_models)
    key.countries = None if terms.countries is None else list(terms.countries)
    key.project = _project(key, terms.project)


def _project(key: ApiKey, public_id: str | None) -> Project | None:
    if public_id is None:
        return None
    if key.project is not None and key.project.public_id == public_id:
        return key.project
    try:
        return locks.open_project(organization=key.organization, public_id=public_id)
    except NotFound as error:
        raise InvalidValue("There is no such project in this organization.", param="project") from error


def record_change(key: ApiKey, event: str, *, actor: Actor, detail: dict[str, object], now: datetime) -> None:
    """Audit what was done to the key and tell the gateways, in the transaction that does it."""
    audit.record(
        actor=actor,
        event=event,
        subject=key.public_id,
        organization=key.organization.public_id,
        detail=detail,
        now=now,
    )
    bus.announce("keys", key.public_id)
