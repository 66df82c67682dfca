"""Takes back a price before it holds, and ends what was agreed with an organization; neither edits a version."""

from datetime import datetime, timedelta
from typing import Final

from django.db import IntegrityError, transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.errors import PriceNotCancelable
from portal.billing.models import PriceEnd, PriceVersion
from portal.core.errors import NotFound
from portal.integrations import bus

# Every gateway hears of it within a second while a channel lives, and refuses requests after ten seconds without one.
CANCEL_BEFORE: Final = timedelta(minutes=1)


def cancel(*, version_id: int, reason: str, actor: Actor, now: datetime) -> PriceEnd:
    """Take back a price that does not hold yet: it never will. Raises NotFound, PriceNotCancelable."""
    version = _version(version_id)
    if version.effective_from - now < CANCEL_BEFORE:
        raise PriceNotCancelable(
            f"version {version.version} holds from {version.effective_from.isoformat()}",
            fix="set a new price: one is canceled a minute before it holds at the latest",
        )
    return _end(version, at=version.effective_from, reason=reason, event="price.canceled", actor=actor, now=now)


def end_agreement(*, version_id: int, reason: str, actor: Actor, now: datetime) -> PriceEnd:
    """Let the public price hold again for the organization from now on. Raises NotFound, PriceNotCancelable."""
    version = _version(version_id)
    if version.organization_id is None:
        raise PriceNotCancelable("a public price ends with the next one", fix="set a new price")
    if version.effective_from >= now or (version.effective_until and version.effective_until <= now):
        raise PriceNotCancelable(f"version {version.version} does not hold now", fix="cancel it, or leave it as it is")
    return _end(version, at=now, reason=reason, event="price.ended", actor=actor, now=now)


def _version(version_id: int) -> PriceVersion:
    rows = PriceVersion.objects.select_related("model", "organization")
    found = rows.filter(pk=version_id, provider=None).first()
    if found is None:
        raise NotFound(f"there is no price version {version_id} of the pool")
    return found


def _end(version: PriceVersion, *, at: datetime, reason: str, event: str, actor: Actor, now: datetime) -> PriceEnd:
    with transaction.atomic():
        try:
            with transaction.atomic():
                end = PriceEnd.objects.create(
                    version=version, at=at, reason=reason[:240], created_at=now, created_by=actor.public_id
                )
        except IntegrityError as error:
            raise PriceNotCancelable(f"version {version.version} has been ended before") from error
        audit.record(
            actor=actor,
            event=event,
            subject=version.model.public_id,
            now=now,
            organization=version.organization.public_id if version.organization else "",
            detail={"version": version.version, "at": at.isoformat(), "reason": reason[:240]},
        )
        bus.announce("prices", version.model.public_id)
    return end
