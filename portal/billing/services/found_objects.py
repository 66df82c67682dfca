"""Sets money aside for Stripe's objects that the books do not know, and releases it as they are taken over."""

from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.models import FoundKind, FoundObject, FoundState, LedgerTx, Recovery
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import ledger
from portal.billing.services.ledger import Transfer
from portal.core import money
from portal.core.errors import NotFound


@dataclass(frozen=True, slots=True)
class Found:
    """One of Stripe's objects that is not in the books; `owner` is empty where nothing says whose it is."""

    kind: FoundKind
    stripe_id: str
    reference: str
    owner: str
    amount_minor: int
    currency: str
    made_at: datetime | None


# Where the money of an object lies that has already left at Stripe; what came in is at Stripe itself.
_HELD_BY = {
    FoundKind.TRANSFER: Kind.PROVIDER_AVAILABLE,
    FoundKind.REFUND: Kind.CUSTOMER_CREDIT,
    FoundKind.DISPUTE: Kind.CUSTOMER_CREDIT,
}


def freeze(*, recovery: Recovery, found: Found, actor: Actor, now: datetime) -> FoundObject:
    """Set aside what the object moved, as far as it is there; the same object again is the same row."""
    known = FoundObject.objects.filter(stripe_id=found.stripe_id).first()
    if known is not None:
        return known
    with transaction.atomic():
        tx = _post(found, actor, now)
        row = FoundObject.objects.create(
            recovery=recovery,
            kind=found.kind,
            stripe_id=found.stripe_id,
            reference=found.reference[:40],
            owner=found.owner[:40],
            amount_minor=found.amount_minor,
            currency=found.currency,
            made_at=found.made_at,
            frozen_nano=sum(part.amount for part in tx.transfers.all()) if tx else 0,
            freeze_tx=tx,
            found_at=now,
        )
        _record(row, "recovery.frozen", actor, now)
    return row


def imported(*, row: FoundObject, actor: Actor, now: datetime) -> FoundObject:
    """Release what was set aside for the object; call it in the transaction that takes the object over."""
    return _settle(row, FoundState.IMPORTED, "", actor, now)


def unexplained(*, row: FoundObject, why: str, actor: Actor, now: datetime) -> FoundObject:
    """Keep the money set aside and say why nothing here explains the object."""
    return _settle(row, FoundState.UNEXPLAINED, why, actor, now)


def release(*, stripe_id: str, reason: str, actor: Actor, now: datetime) -> FoundObject:
    """Put back what was set aside for an object that an operator has dealt with. Raises NotFound, BelowFloor."""
    row = FoundObject.objects.filter(stripe_id=stripe_id, state=FoundState.UNEXPLAINED).first()
    if row is None:
        raise NotFound(f"no unexplained object is called {stripe_id}", fix="take an id that `recover --thaw` has named")
    return _settle(row, FoundState.RELEASED, reason, actor, now)


def _settle(row: FoundObject, state: FoundState, why: str, actor: Actor, now: datetime) -> FoundObject:
    with transaction.atomic():
        row = FoundObject.objects.select_for_update(of=("self",)).get(pk=row.pk)
        if row.state == FoundState.RELEASED or (row.state == state and row.why == why[:240]):
            return row
        if state != FoundState.UNEXPLAINED and row.freeze_tx is not None:
            reason = why or f"{row.stripe_id} is taken over"
            ledger.reverse(tx=row.freeze_tx, reason=reason, actor=actor, now=now)
        row.state, row.why, row.settled_at = state, why[:240], now
        row.save(update_fields=["state", "why", "settled_at"])
        _record(row, f"recovery.{state}", actor, now)
    return row


def _post(found: Found, actor: Actor, now: datetime) -> LedgerTx | None:
    """Post the money aside; None where there is none to set aside."""
    amount = int(money.nano_from_minor(found.amount_minor, found.currency))
    if not found.owner or not amount:
        return None
    frozen = ledger.account(Kind.FROZEN, found.owner, currency=found.currency)
    if found.kind == FoundKind.TOPUP:
        source = ledger.account(Kind.STRIPE_BALANCE, currency=found.currency)
    else:
        source = ledger.account(_HELD_BY[found.kind], found.owner, currency=found.currency)
        amount = min(amount, max(0, balances.free_of(locks.accounts([source.pk])[source.pk])))
    if not amount:
        return None
    return ledger.post(
        kind="recovery_frozen",
        key=f"recovery_frozen:{found.stripe_id}",
        source_type="stripe_object",
        source_id=found.stripe_id,
        transfers=[Transfer(source, frozen, amount)],
        actor=actor,
        now=now,
        note=f"{found.kind} that the restored books do not know",
    )


def _record(row: FoundObject, event: str, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.stripe_id,
        now=now,
        detail={
            "kind": row.kind,
            "owner": row.owner,
            "amount_minor": row.amount_minor,
            "currency": row.currency,
            "frozen_nano": str(row.frozen_nano),
            "why": row.why,
        },
    )
