"""Give a key another secret. Policy, limits, budget and usage stay one: what changes is how it is proven."""

from datetime import datetime, timedelta

from django.db import transaction

from portal.accounts import locks
from portal.accounts.models import ApiKey, Organization, RetiredSecret
from portal.accounts.rules import key_text
from portal.accounts.services.keys import CreatedKey, record_change, require_live
from portal.accounts.services.organizations import require_active
from portal.audit.services import Actor
from portal.core.errors import Conflict, InvalidValue

MAX_GRACE = timedelta(days=30)
_REMEMBERED = 5


class NoOldSecret(Conflict):
    """No earlier secret of the key works any more."""

    code = "no_old_secret"


def rotate_key(
    *, organization: Organization, public_id: str, grace: timedelta, actor: Actor, now: datetime
) -> CreatedKey:
    """Replace the key's secret; the one so far works until the grace is over, those before it no longer.

    Raises NotFound, InvalidValue, KeyAlreadyRevoked, OrganizationSuspended.
    """
    if not timedelta() <= grace <= MAX_GRACE:
        raise InvalidValue(f"The old secret works for at most {MAX_GRACE.days} more days.", param="grace")
    with transaction.atomic():
        require_active(locks.organization(organization_id=organization.pk))
        key = locks.api_key(organization=organization, public_id=public_id)
        require_live(key)
        _end_old_secrets(key, now)
        RetiredSecret.objects.create(key=key, digest=key.digest, retired_at=now, works_until=now + grace)
        _forget_oldest(key)
        made = key_text.new_key(public_id=key.public_id)
        key.digest = key_text.digest(made.text)
        key.rotated_at, key.grace_until = now, now + grace
        key.save(update_fields=["digest", "rotated_at", "grace_until"])
        detail: dict[str, object] = {"name": key.name, "grace_until": key.grace_until.isoformat()}
        record_change(key, "api_key.rotated", actor=actor, detail=detail, now=now)
    return CreatedKey(key=key, text=made.text)


def end_grace(*, organization: Organization, public_id: str, actor: Actor, now: datetime) -> ApiKey:
    """Refuse the key's earlier secrets from now on. Raises NotFound, KeyAlreadyRevoked, NoOldSecret."""
    with transaction.atomic():
        key = locks.api_key(organization=organization, public_id=public_id)
        require_live(key)
        if not _end_old_secrets(key, now):
            raise NoOldSecret(f"No earlier secret of {key.name} works any more.")
        key.grace_until = now
        key.save(update_fields=["grace_until"])
        record_change(key, "api_key.grace_ended", actor=actor, detail={"name": key.name}, now=now)
    return key


def _end_old_secrets(key: ApiKey, now: datetime) -> int:
    return RetiredSecret.objects.filter(key=key, works_until__gt=now).update(works_until=now)


def _forget_oldest(key: ApiKey) -> None:
    """Keep what a refusal may have to explain; the audit log keeps the rotations."""
    kept = RetiredSecret.objects.filter(key=key).order_by("-pk").values_list("pk", flat=True)[:_REMEMBERED]
    RetiredSecret.objects.filter(key=key).exclude(pk__in=list(kept)).delete()
