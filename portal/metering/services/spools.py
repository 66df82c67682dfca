"""The register of spool files: which process writes which, and whether more may come from it."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.metering import locks
from portal.metering.errors import SpoolClosed
from portal.metering.models import Spool, SpoolState


def register(*, public_id: str, process: str, host: str, now: datetime) -> Spool:
    """Enter a new spool, once; it must be known before the first credit is leased to it."""
    spool, _ = Spool.objects.get_or_create(
        public_id=public_id,
        defaults={"process": process, "host": host, "opened_at": now, "seen_at": now},
    )
    return spool


def touch(*, public_id: str, now: datetime) -> None:
    """Note that the spool's process lives."""
    Spool.objects.filter(public_id=public_id, state=SpoolState.OPEN).update(seen_at=now)


def mark_drained(*, public_id: str, now: datetime) -> Spool:
    """Note that the last record is in and no more will come; a second call changes nothing. Raises SpoolUnknown."""
    with transaction.atomic():
        spool = locks.spool(public_id)
        if spool.state == SpoolState.OPEN:
            spool.state = SpoolState.DRAINED
            spool.seen_at = now
            spool.save(update_fields=["state", "seen_at"])
    return spool


def mark_abandoned(
    *, public_id: str, reason: str, actor: Actor, now: datetime, detail: Mapping[str, int] | None = None
) -> Spool:
    """Give up a spool whose file is lost; records that come later are refused. Raises SpoolUnknown, SpoolClosed.

    `detail` goes into the audit log with the reason.
    """
    with transaction.atomic():
        spool = locks.spool(public_id)
        if spool.state != SpoolState.OPEN:
            raise SpoolClosed(f"spool {public_id} is {spool.state} already")
        spool.state = SpoolState.ABANDONED
        spool.save(update_fields=["state"])
        audit.record(
            actor=actor,
            event="spool.abandoned",
            subject=public_id,
            now=now,
            detail={"reason": reason, "process": spool.process, "shipped_seq": spool.shipped_seq, **(detail or {})},
        )
    return spool
