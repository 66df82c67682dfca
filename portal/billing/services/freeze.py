"""Whether money may leave: while a recovery is open it may not, whoever asks."""

from datetime import datetime
from typing import ClassVar

from django.db import IntegrityError, transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing.models import FoundObject, FoundState, Recovery
from portal.core.errors import Conflict, NotFound

FIX = "finish `manage.py recover --after-restore`; it says what is left to explain"


class MoneyFrozen(Conflict):
    """A backup is being recovered: nothing is paid out, refunded or charged until that is done."""

    code: ClassVar[str] = "money_frozen"


class AlreadyFrozen(Conflict):
    """A recovery is open already."""

    code: ClassVar[str] = "recovery_open"


def is_frozen() -> bool:
    """Tell whether a recovery is open."""
    return Recovery.objects.filter(ended_at=None).exists()


def require_thawed() -> None:
    """Raise MoneyFrozen while a recovery is open."""
    if is_frozen():
        raise MoneyFrozen("payments rest while a backup is being recovered", fix=FIX)


def current() -> Recovery | None:
    """Return the open recovery, or None."""
    return Recovery.objects.filter(ended_at=None).first()


def begin(*, known_until: datetime, actor: Actor, now: datetime) -> Recovery:
    """Open a recovery of a backup that knows everything up to `known_until`. Raises AlreadyFrozen."""
    try:
        with transaction.atomic():
            row = Recovery.objects.create(known_until=known_until, started_at=now, started_by=actor.public_id)
            audit.record(
                actor=actor,
                event="recovery.begun",
                subject=row.public_id,
                now=now,
                detail={"known_until": known_until.isoformat()},
            )
    except IntegrityError as error:
        raise AlreadyFrozen("a recovery is open already", fix=FIX) from error
    return row


def end(*, actor: Actor, now: datetime) -> Recovery:
    """Let payments go on; what nothing explains stays set aside. Raises NotFound, MoneyFrozen."""
    with transaction.atomic():
        row = Recovery.objects.select_for_update().filter(ended_at=None).first()
        if row is None:
            raise NotFound("no recovery is open")
        waiting = row.found.filter(state=FoundState.FROZEN).count()
        if waiting:
            raise MoneyFrozen(f"{waiting} of Stripe's objects are not taken over yet", fix=FIX)
        row.ended_at, row.ended_by = now, actor.public_id
        row.save(update_fields=["ended_at", "ended_by"])
        left = row.found.filter(state=FoundState.UNEXPLAINED).count()
        audit.record(
            actor=actor, event="recovery.ended", subject=row.public_id, now=now, detail={"unexplained": str(left)}
        )
    return row


def unexplained(*, limit: int = 200) -> list[FoundObject]:
    """Return what stays set aside because nothing here says what it was, oldest first."""
    rows = FoundObject.objects.filter(state=FoundState.UNEXPLAINED).select_related("freeze_tx")
    return list(rows.order_by("made_at", "pk")[:limit])
