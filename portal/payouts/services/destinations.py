"""Every change of where a provider's money goes: kept, told to all owners, and followed by a pause in payouts."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.accounts.selectors.members import former_owner_addresses
from portal.accounts.services.owners import tell_owners
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.payouts import locks
from portal.payouts.errors import DestinationHeld
from portal.payouts.models import DestinationChange, Payout, PayoutApproval, PayoutState
from portal.payouts.rules import protection, reasons
from portal.payouts.selectors import destinations as selectors
from portal.payouts.services import moves
from portal.providers.models import Provider

# Whoever was an owner this short a time ago is told too: a thief would remove the others first.
_FORMER_OWNERS = timedelta(days=30)
_STOPPABLE = [PayoutState.RESERVED, PayoutState.APPROVED, PayoutState.WAITING_FUNDS]


@dataclass(frozen=True, slots=True)
class Change:
    """What changed, in words that may be shown: account numbers by their last digits."""

    kind: str
    before: str = ""
    after: str = ""
    also_told: tuple[str, ...] = ()


def record(*, provider: Provider, change: Change, holds: bool, actor: Actor, now: datetime) -> DestinationChange:
    """Keep the change inside the caller's transaction; with `holds` payouts rest for protection.HOLD from now."""
    until = now + protection.HOLD if holds else None
    row = DestinationChange.objects.create(
        provider=provider,
        kind=change.kind,
        before=change.before[:240],
        after=change.after[:240],
        changed_by=actor.public_id,
        address=actor.address,
        changed_at=now,
        holds_until=until,
    )
    if until is not None:
        _hold_open(provider, until, now)
    audit.record(
        actor=actor,
        event="payout_destination.changed",
        subject=provider.public_id,
        now=now,
        organization=provider.organization.public_id,
        detail={
            "kind": change.kind,
            "before": change.before,
            "after": change.after,
            "holds_until": until.isoformat() if until else "",
        },
    )
    _tell(row, change, now)
    return row


def require_no_hold(*, provider: Provider, now: datetime) -> None:
    """Raise DestinationHeld while payouts rest after a change."""
    until = selectors.held_until(provider=provider, now=now)
    if until is not None:
        raise DestinationHeld(f"where the money goes was changed; payouts rest until {_moment(until)}")


def resume_held(*, now: datetime) -> int:
    """Let payouts go on whose pause is over; they need their approvals again. Return how many.

    One whose destination is no longer the provider's is canceled, and its money is available again.
    """
    resumed = 0
    for payout_id in selectors.to_resume(now=now):
        with transaction.atomic():
            payout = locks.payout(payout_id)
            is_due = selectors.held_until(provider=payout.provider, now=now) is None
            if payout.state == PayoutState.HELD and is_due:
                _let_go_on(payout, now)
                resumed += 1
    return resumed


def hold_if_changed(*, payout: Payout, now: datetime) -> bool:
    """Hold the locked payout where its provider's destination was changed a short time ago; tell whether it was."""
    until = selectors.held_until(provider=payout.provider, now=now)
    if until is not None:
        reason = f"{reasons.CHANGE_HOLD} {_moment(until)}"
        moves.move(payout, PayoutState.HELD, reason=reason, actor=SYSTEM_ACTOR, now=now)
    return until is not None


def _let_go_on(payout: Payout, now: datetime) -> None:
    if selectors.is_current(payout=payout):
        moves.move(payout, PayoutState.RESERVED, reason="the pause is over", actor=SYSTEM_ACTOR, now=now)
        PayoutApproval.objects.filter(payout=payout).delete()
        return
    moves.move(payout, PayoutState.CANCELED, reason="the account is another one now", actor=SYSTEM_ACTOR, now=now)
    moves.post_released(payout, actor=SYSTEM_ACTOR, now=now)


def _hold_open(provider: Provider, until: datetime, now: datetime) -> None:
    rows = Payout.objects.filter(provider=provider, state__in=_STOPPABLE).order_by("pk")
    for payout_id in rows.values_list("pk", flat=True):
        payout = locks.payout(payout_id)
        if payout.state in _STOPPABLE:
            reason = f"{reasons.CHANGE_HOLD} {_moment(until)}"
            moves.move(payout, PayoutState.HELD, reason=reason, actor=SYSTEM_ACTOR, now=now)


def _tell(row: DestinationChange, change: Change, now: datetime) -> None:
    organization = row.provider.organization
    former = former_owner_addresses(organization=organization, since=now - _FORMER_OWNERS)
    tell_owners(
        organization=organization,
        key=f"destination-change:{row.pk}",
        template="payout_destination_changed",
        context={
            "what": row.get_kind_display(),
            "before": row.before,
            "after": row.after,
            "at": _moment(now),
            "until": _moment(row.holds_until) if row.holds_until else "",
            "address": row.address or "",
            "operator": settings.DEFAULT_FROM_EMAIL,
        },
        now=now,
        also=[row.provider.contact_email, *change.also_told, *former],
    )


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"
