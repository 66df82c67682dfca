"""Early fraud warnings: spending freezes at once, then an operator refunds what is unused or dismisses the warning."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.accounts import locks as account_locks
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.models import FraudWarning, Refund, StopKind, WarningState
from portal.billing.selectors import disputes as selectors
from portal.billing.selectors import refunds as refund_selectors
from portal.billing.services import earning_delay, refund_reading, refunds, stops
from portal.billing.services.refund_reading import About
from portal.core.errors import Conflict
from portal.integrations import queue, stripe


class AlreadyDecided(Conflict):
    """Somebody has decided about the warning before."""

    code = "warning_already_decided"


def read(*, warning: str, now: datetime) -> FraudWarning | None:
    """Keep a warning and freeze the organization's spending; None where it is about no purchase of ours.

    Raises PurchaseUnknown (come again), PaymentError.
    """
    seen = stripe.payments().fraud_warning(warning=warning)
    about = About(seen.id, "fraud_warning", seen.charge, seen.payment)
    topup = refund_reading.purchase_for(about=about, now=now)
    if topup is None:
        return None
    with transaction.atomic():
        stops.stop(
            organization=topup.organization,
            kind=StopKind.FRAUD_WARNING,
            subject=seen.id,
            note=f"{seen.type} about {topup.public_id}",
            actor=SYSTEM_ACTOR,
            now=now,
        )
        row, is_new = FraudWarning.objects.get_or_create(
            stripe_warning=seen.id,
            defaults={
                "topup": topup,
                "organization": topup.organization,
                "charge": seen.charge,
                "type": seen.type[:64],
                "is_actionable": seen.is_actionable,
                "warned_at": seen.created_at,
                "noted_at": now,
            },
        )
        if is_new:
            _record(row, "fraud_warning.noted", SYSTEM_ACTOR, now)
            until = now + timedelta(days=settings.DISPUTE_HOLD_DAYS)
            earning_delay.delay(organization=topup.organization.public_id, until=until)
        queue.after_commit("billing.judge_customer", organization_id=topup.organization_id)
    return row


def refund_unused(*, stripe_warning: str, note: str, actor: Actor, now: datetime) -> Refund | None:
    """Give back what is unspent of the purchase, and let the organization spend what else it has.

    Returns None where nothing is left to give back. Raises NotFound, AlreadyDecided.
    """
    row = _undecided(stripe_warning)
    with transaction.atomic():
        account_locks.organization(organization_id=row.organization_id)
        refund = None
        topup = locks.topup(row.topup_id)
        most = refund_selectors.refundable(topup=topup)
        if most > 0:
            refund = refunds.give(topup=topup, amount_minor=most, note=note or "fraud warning", actor=actor, now=now)
        _decide(row, WarningState.REFUNDED, actor, now)
        _unfreeze(row, note or "the unused part was refunded", actor, now)
    return refund


def dismiss(*, stripe_warning: str, note: str, actor: Actor, now: datetime) -> FraudWarning:
    """Let the organization spend again: the operator trusts the payment. Raises NotFound, AlreadyDecided."""
    row = _undecided(stripe_warning)
    with transaction.atomic():
        account_locks.organization(organization_id=row.organization_id)
        _decide(row, WarningState.DISMISSED, actor, now)
        _unfreeze(row, note or "the warning was dismissed", actor, now)
    return row


def _undecided(stripe_warning: str) -> FraudWarning:
    row = selectors.warning(stripe_warning=stripe_warning)
    if row.state != WarningState.OPEN:
        raise AlreadyDecided(f"{row.stripe_warning} is {row.state}")
    return row


def _decide(row: FraudWarning, state: WarningState, actor: Actor, now: datetime) -> None:
    locked = locks.fraud_warning(row.pk)
    if locked.state != WarningState.OPEN:
        raise AlreadyDecided(f"{locked.stripe_warning} is {locked.state}")
    row.state = locked.state = state
    locked.decided_at, locked.decided_by = now, actor.public_id
    locked.save(update_fields=["state", "decided_at", "decided_by"])
    _record(locked, f"fraud_warning.{state.value}", actor, now)


def _unfreeze(row: FraudWarning, note: str, actor: Actor, now: datetime) -> None:
    stops.lift(
        organization=row.organization,
        kind=StopKind.FRAUD_WARNING,
        subject=row.stripe_warning,
        note=note,
        actor=actor,
        now=now,
    )


def _record(row: FraudWarning, event: str, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.stripe_warning,
        organization=row.organization.public_id,
        detail={"topup": row.topup.public_id, "type": row.type, "charge": row.charge},
        now=now,
    )
