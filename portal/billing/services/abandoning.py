"""Gives up a spool whose disk is lost: what it had not shipped is lost with it, and its leases return."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from portal.audit.services import Actor
from portal.billing.models.credit import CreditLease, LeaseState
from portal.billing.services import budgets, leases
from portal.metering.errors import SpoolNotEmpty, SpoolUnknown
from portal.metering.models import Reader, Spool
from portal.metering.selectors import queued
from portal.metering.services import spools

QUIET = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Abandoned:
    """What was given up: the spool, how far it had shipped, and how many leases still wait for booked charges.

    `unknown_nano` is the most that can have been served and is neither charged nor paid: what its leases had left.
    """

    spool_id: str
    process: str
    host: str
    shipped_seq: int
    leases_waiting: int
    unknown_nano: int


def abandon(*, spool_id: str, reason: str, actor: Actor, now: datetime) -> Abandoned:
    """Give the spool up, once, and audit it.

    Raises SpoolUnknown, SpoolClosed, SpoolNotEmpty where its process was heard of in the last two minutes.
    """
    with transaction.atomic():
        known = Spool.objects.filter(public_id=spool_id).first()
        if known is None:
            raise SpoolUnknown(f"spool {spool_id} is not registered", fix="list spools with replay_spool --list")
        if now - known.seen_at < QUIET:
            raise SpoolNotEmpty(
                f"{known.process} wrote to spool {spool_id} at {known.seen_at:%H:%M:%S}; it is not lost",
                fix="stop that gateway process, let another one adopt the file, or wait two minutes",
            )
        unknown = _unknown_nano(known.pk)
        spool = spools.mark_abandoned(
            public_id=spool_id, reason=reason, actor=actor, now=now, detail={"unknown_nano": unknown}
        )
        waiting = leases.LIFE.finish_spool(spool_id=spool.pk, now=now)
        waiting += budgets.LIFE.finish_spool(spool_id=spool.pk, now=now)
    return Abandoned(spool_id, spool.process, spool.host, spool.shipped_seq, waiting, unknown)


def _unknown_nano(spool_id: int) -> int:
    open_leases = CreditLease.objects.filter(spool_id=spool_id).exclude(state=LeaseState.CLOSED)
    return sum(
        lease.granted - lease.used - queued.queued_charge(reader=Reader.BILLING, lease_id=lease.pk)
        for lease in open_leases
    )
