"""After an old backup was restored: finds what Stripe has done since, sets that money aside, then takes it over.

Every step may be repeated. What nothing here explains stays set aside until an operator has decided.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings
from django.db import connection

from portal.audit.services import Actor
from portal.billing.models import (
    Dispute,
    FoundKind,
    FoundObject,
    LedgerTx,
    Recovery,
    Refund,
    TopUp,
    TopUpState,
)
from portal.billing.services import disputes, found_objects, freeze, refund_reading, topup_recovery
from portal.billing.services.found_objects import Found
from portal.billing.services.topup_recovery import Bought
from portal.billing.services.topups import TopUpMismatch
from portal.core.errors import NotFound
from portal.integrations import stripe
from portal.integrations.stripe_types import Dispute as SeenDispute
from portal.integrations.stripe_types import Payments, Transfer
from portal.integrations.stripe_types import Refund as SeenRefund
from portal.payouts.models import Payout
from portal.payouts.services import bank, transfer_recovery

# Clocks differ, and what was under way when the backup was made may have been booked after it.
OVERLAP = timedelta(hours=2)
# So many ids are left out, so that none is given to something else that was lost.
_SKIPPED_IDS = 1_000_000
_DEAD = frozenset({"failed", "canceled"})


@dataclass(slots=True)
class World:
    """What Stripe has since the backup, as far as the books do not know it."""

    bought: list[Bought] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    refunds: list[SeenRefund] = field(default_factory=list)
    disputes: list[SeenDispute] = field(default_factory=list)
    owners: dict[str, str] = field(default_factory=dict)

    def found(self) -> Iterator[Found]:
        """Yield each object whose money is not in the books, as it is set aside; the oldest kinds of money first."""
        for one in self.bought:
            if one.payment is not None:
                payment = one.payment
                yield Found(
                    FoundKind.TOPUP,
                    payment.id,
                    one.reference,
                    topup_recovery.owner_of(one),
                    payment.received_minor,
                    payment.currency,
                    payment.created_at,
                )
        for seen in self.transfers:
            owner = "" if transfer_recovery.is_set_aside(seen) else transfer_recovery.provider_of(seen)
            yield Found(
                FoundKind.TRANSFER, seen.id, seen.reference, owner, seen.amount_minor, seen.currency, seen.created_at
            )
        for refund in self.refunds:
            owner = "" if _is_ours(refund) else self.owners.get(refund.charge, "")
            yield Found(
                FoundKind.REFUND,
                refund.id,
                refund.reference,
                owner,
                refund.amount_minor,
                refund.currency,
                refund.created_at,
            )
        for dispute in self.disputes:
            owner = self.owners.get(dispute.charge, "")
            yield Found(
                FoundKind.DISPUTE,
                dispute.id,
                "",
                owner,
                dispute.amount_minor,
                dispute.currency,
                dispute.created_at,
            )


def known_until() -> datetime | None:
    """Return the last moment that these books know of; None where they are empty."""
    return LedgerTx.objects.order_by("-created_at").values_list("created_at", flat=True).first()


def begin(*, known_until: datetime, actor: Actor, now: datetime) -> Recovery:
    """Stop all payments and leave out ids, so that none of those lost is given again. Raises AlreadyFrozen."""
    row = freeze.begin(known_until=known_until, actor=actor, now=now)
    _leave_out_ids()
    return row


def _leave_out_ids() -> None:
    """Move every sequence on: spools, receipts and other machines still name rows by ids that the backup lost."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT setval(format('%%I.%%I', schemaname, sequencename)::regclass, last_value + %s)"
            " FROM pg_sequences WHERE schemaname = current_schema() AND last_value IS NOT NULL AND max_value > %s",
            [_SKIPPED_IDS, 2**40],
        )


def look(*, since: datetime) -> World:
    """Ask Stripe for everything since then and keep what the books do not know. Raises what Payments raises."""
    door, world = stripe.payments(), World()
    checkouts = {one.payment_intent or one.id: one for one in door.checkouts_since(since=since)}
    for payment in door.payments_since(since=since):
        bought = Bought(checkouts.pop(payment.id, None), payment)
        if payment.charge:
            world.owners[payment.charge] = topup_recovery.owner_of(bought)
        if payment.status == "succeeded" and not _is_credited(payment.id):
            world.bought.append(bought)
    world.bought += [Bought(one) for one in checkouts.values() if _is_new_page(one.reference, one.status)]
    known = set(Payout.objects.exclude(stripe_transfer=None).values_list("stripe_transfer", flat=True))
    world.transfers = [one for one in door.transfers_since(since=since) if one.id not in known]
    _look_at_returns(door, world, since)
    return world


def _look_at_returns(door: Payments, world: World, since: datetime) -> None:
    refunds = set(Refund.objects.exclude(stripe_refund=None).values_list("stripe_refund", flat=True))
    world.refunds = [
        one for one in door.refunds_since(since=since) if one.id not in refunds and one.status not in _DEAD
    ]
    known = set(Dispute.objects.values_list("stripe_dispute", flat=True))
    world.disputes = [one for one in door.disputes_since(since=since) if one.id not in known]
    charges = {one.charge for one in world.refunds} | {one.charge for one in world.disputes}
    rows = TopUp.objects.filter(charge__in=charges).select_related("organization")
    world.owners |= {row.charge: row.organization.public_id for row in rows}


def _is_credited(payment: str) -> bool:
    return TopUp.objects.filter(payment_intent=payment, state=TopUpState.PAID).exists()


def _is_new_page(reference: str, status: str) -> bool:
    return bool(reference) and status == "open" and not TopUp.objects.filter(public_id=reference).exists()


def _is_ours(seen: SeenRefund) -> bool:
    return Refund.objects.filter(public_id=seen.reference).exists()


def set_aside(*, recovery: Recovery, world: World, actor: Actor, now: datetime) -> list[FoundObject]:
    """Set the money of every unknown object aside, before anything else is decided."""
    found = [one for one in world.found() if one.currency == settings.CURRENCY]
    return [found_objects.freeze(recovery=recovery, found=one, actor=actor, now=now) for one in found]


def take_over_purchases(*, world: World, actor: Actor, now: datetime) -> Counter[str]:
    """Write what was bought, refunded and disputed, in this order; return how many objects by outcome.

    Raises what Payments raises; what was done before stays done.
    """
    done: Counter[str] = Counter()
    for bought in world.bought:
        problem = _topup(bought, actor, now)
        if bought.payment is not None:
            done[_settle(bought.payment.id, problem, actor, now)] += 1
    for refund in world.refunds:
        done[_settle(refund.id, _refund(refund, actor, now), actor, now)] += 1
    for dispute in world.disputes:
        done[_settle(dispute.id, _dispute(dispute, actor, now), actor, now)] += 1
    return done


def take_over_transfers(*, world: World, actor: Actor, now: datetime) -> Counter[str]:
    """Write who was paid; return how many objects by outcome. Raises what Payments raises."""
    done: Counter[str] = Counter()
    for transfer in world.transfers:
        row = FoundObject.objects.filter(stripe_id=transfer.id).first()
        if row is None:
            done["foreign"] += 1
            continue
        problem = transfer_recovery.take_over(row=row, seen=transfer, actor=actor, now=now)
        if not problem:
            bank.note_transfer(transfer=transfer.id, now=now)
        done[_settle(transfer.id, problem, actor, now)] += 1
    return done


def _topup(bought: Bought, actor: Actor, now: datetime) -> str:
    try:
        return topup_recovery.take_over(bought=bought, actor=actor, now=now)
    except TopUpMismatch as error:
        return error.message


def _refund(seen: SeenRefund, actor: Actor, now: datetime) -> str:
    """Release what was set aside and let the one reader of refunds book it; it takes the same money."""
    if not TopUp.objects.filter(charge=seen.charge).exists():
        return "its purchase is not here"
    _release(seen.id, actor, now)
    try:
        refund_reading.read(charge=seen.charge, now=now)
    except NotFound as error:
        return error.message
    return "" if Refund.objects.filter(stripe_refund=seen.id).exists() else "it is about no purchase of this pool"


def _dispute(seen: SeenDispute, actor: Actor, now: datetime) -> str:
    if not TopUp.objects.filter(charge=seen.charge).exists():
        return "its purchase is not here"
    _release(seen.id, actor, now)
    try:
        row = disputes.read(dispute=seen.id, now=now)
    except NotFound as error:
        return error.message
    return "" if row is not None else "it is about no purchase of this pool"


def _release(stripe_id: str, actor: Actor, now: datetime) -> None:
    row = FoundObject.objects.filter(stripe_id=stripe_id).first()
    if row is not None:
        found_objects.imported(row=row, actor=actor, now=now)


def _settle(stripe_id: str, problem: str, actor: Actor, now: datetime) -> str:
    row = FoundObject.objects.filter(stripe_id=stripe_id).first()
    if row is None:
        return "foreign"
    if problem:
        return found_objects.unexplained(row=row, why=problem, actor=actor, now=now).state
    return found_objects.imported(row=row, actor=actor, now=now).state
