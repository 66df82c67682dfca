"""Why an organization may not spend: every reason is a row, and it may again when all of them are lifted."""

from datetime import datetime

from django.db import transaction

from portal.accounts import locks as account_locks
from portal.accounts.models import Organization
from portal.accounts.services import spending
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.models import SpendingStop
from portal.billing.services import credit_messages
from portal.core.errors import InvalidValue, NotFound


def stop(
    *, organization: Organization, kind: str, subject: str, actor: Actor, now: datetime, note: str = ""
) -> SpendingStop:
    """Stop the organization's spending because of `subject`, once each; a reason that was lifted stays lifted."""
    with transaction.atomic():
        account_locks.organization(organization_id=organization.pk)
        row, is_new = SpendingStop.objects.get_or_create(
            organization=organization,
            kind=kind,
            subject=subject,
            defaults={"note": note[:240], "created_at": now},
        )
        if is_new:
            audit.record(
                actor=actor,
                event="spending_stop.set",
                subject=subject,
                organization=organization.public_id,
                detail={"kind": kind, "note": note},
                now=now,
            )
            credit_messages.spending_stopped(stop=row, is_automatic=actor == SYSTEM_ACTOR, now=now)
        _follow(organization.pk, actor, now)
    return row


def lift(*, organization: Organization, kind: str, subject: str, actor: Actor, now: datetime, note: str = "") -> bool:
    """Take one reason away; tell whether it was in force."""
    with transaction.atomic():
        account_locks.organization(organization_id=organization.pk)
        rows = SpendingStop.objects.filter(organization=organization, kind=kind, subject=subject, lifted_at=None)
        was_in_force = bool(rows.update(lifted_at=now, lifted_by=actor.public_id, lift_note=note[:240]))
        if was_in_force:
            audit.record(
                actor=actor,
                event="spending_stop.lifted",
                subject=subject,
                organization=organization.public_id,
                detail={"kind": kind, "note": note},
                now=now,
            )
        _follow(organization.pk, actor, now)
    return was_in_force


def lift_by_hand(*, organization: Organization, stop_id: int, note: str, actor: Actor, now: datetime) -> None:
    """Let an operator take a reason away, whatever it is. Raises NotFound, InvalidValue without a note."""
    row = SpendingStop.objects.filter(organization=organization, pk=stop_id, lifted_at=None).first()
    if row is None:
        raise NotFound("there is no such stop in force")
    if not note.strip():
        raise InvalidValue("say why it may spend again", param="note")
    lift(organization=organization, kind=row.kind, subject=row.subject, actor=actor, now=now, note=note.strip())


def _follow(organization_id: int, actor: Actor, now: datetime) -> None:
    """Let the organization's row say what the newest stop in force says."""
    newest = SpendingStop.objects.filter(organization=organization_id, lifted_at=None).order_by("-created_at", "-pk")
    why = newest.values_list("kind", flat=True).first() or ""
    spending.set_stop(organization_id=organization_id, why=why, actor=actor, now=now)
