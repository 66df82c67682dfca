"""Disputes: what they move is booked by Stripe's own lines, each once; spending stops while a bank decides.

What a dispute takes beyond the customer's free credit is owed. Providers keep what they earned: a claw-back is an
operator's own decision.
"""

from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.models import Dispute, DisputeMovement, LedgerAccount, StopKind, TopUp
from portal.billing.rules import disputes as rules
from portal.billing.rules import refunds as refund_rules
from portal.billing.rules.accounts import Kind
from portal.billing.rules.refunds import Purchase
from portal.billing.selectors import balances, risk
from portal.billing.selectors import disputes as selectors
from portal.billing.services import earning_delay, incoming, ledger, refund_reading, stops, templates
from portal.billing.services import risk as judging
from portal.billing.services.incoming import Money, Source
from portal.billing.services.refund_reading import About
from portal.core import money
from portal.integrations import bus, queue, stripe
from portal.integrations.stripe_types import Dispute as Seen
from portal.integrations.stripe_types import Movement


def read(*, dispute: str, now: datetime) -> Dispute | None:
    """Bring a dispute to where Stripe says it is; None where it is about no purchase of ours, which is noted.

    Raises PurchaseUnknown (come again), PaymentError.
    """
    seen = stripe.payments().dispute(dispute=dispute)
    about = About(seen.id, "dispute", seen.charge, seen.payment, seen.amount_minor, seen.currency)
    topup = refund_reading.purchase_for(about=about, now=now)
    if topup is None:
        return None
    return take(topup=topup, seen=seen, now=now)


def take(*, topup: TopUp, seen: Seen, now: datetime) -> Dispute:
    """Keep what Stripe says of the dispute, book what it moved, and stop or allow spending."""
    row = _row(topup, seen, now)
    if rules.is_open(seen.status):
        _stop(row, now)
    with transaction.atomic():
        row = locks.dispute(row.pk)
        for movement in sorted(seen.movements, key=lambda line: (line.created_at, line.id)):
            _book(row, movement, now)
        _note_status(row, seen, now)
    if seen.status in rules.WON:
        _allow(row, now)
    return row


def write_off_due(*, now: datetime) -> int:
    """Write off what customers still owe for disputes that were lost long enough ago; return how many."""
    due = selectors.to_write_off(lost_before=now - timedelta(days=settings.DISPUTE_WRITE_OFF_DAYS))
    for dispute_id in due:
        _write_off(dispute_id, now)
    return len(due)


def debt_of(row: Dispute) -> int:
    """Return what the dispute took beyond the customer's credit (nano)."""
    return sum(row.movements.values_list("debt_nano", flat=True))


def _row(topup: TopUp, seen: Seen, now: datetime) -> Dispute:
    with transaction.atomic():
        row, is_new = Dispute.objects.get_or_create(
            stripe_dispute=seen.id,
            defaults={
                "topup": topup,
                "organization": topup.organization,
                "charge": seen.charge,
                "status": seen.status,
                "reason": seen.reason[:48],
                "amount_minor": seen.amount_minor,
                "currency": seen.currency,
                "evidence_due_at": seen.evidence_due_at,
                "opened_at": seen.created_at,
                "seen_at": now,
            },
        )
        if is_new:
            _record(row, "dispute.opened", SYSTEM_ACTOR, now)
    return row


def _stop(row: Dispute, now: datetime) -> None:
    with transaction.atomic():
        stops.stop(
            organization=row.organization,
            kind=StopKind.DISPUTE,
            subject=row.stripe_dispute,
            note=f"{row.reason} dispute of {row.topup.public_id}{_answerable(row)}",
            actor=SYSTEM_ACTOR,
            now=now,
        )
        until = now + timedelta(days=settings.DISPUTE_HOLD_DAYS)
        if not row.movements.exists():
            earning_delay.delay(organization=row.organization.public_id, until=until)
        queue.after_commit("billing.judge_customer", organization_id=row.organization_id)


def _answerable(row: Dispute) -> str:
    due = row.evidence_due_at
    return f"; evidence can be sent until {due:%Y-%m-%d %H:%M} UTC" if due else ""


def _allow(row: Dispute, now: datetime) -> None:
    """Won: spending goes on, and what was kept back matures at its ordinary time."""
    stops.lift(
        organization=row.organization,
        kind=StopKind.DISPUTE,
        subject=row.stripe_dispute,
        note="the dispute was won",
        actor=SYSTEM_ACTOR,
        now=now,
    )
    found = judging.judge(organization_id=row.organization_id, now=now)
    if not risk.facts_of(organization=row.organization).has_open_trouble:
        days = judging.holds().days(found.in_force)
        earning_delay.resume(organization=row.organization.public_id, customer_days=days, now=now)


def _book(row: Dispute, movement: Movement, now: datetime) -> None:
    """Book one of Stripe's lines: the amount as out or back, the fee by itself."""
    if DisputeMovement.objects.filter(movement=movement.id).exists():
        return
    booked = DisputeMovement(
        dispute=row,
        movement=movement.id,
        amount_minor=movement.amount_minor,
        fee_minor=movement.fee_minor,
        moved_at=movement.created_at,
        booked_at=now,
    )
    if movement.amount_minor < 0:
        booked.debt_nano = _book_out(row, movement, now)
    elif movement.amount_minor > 0:
        _book_back(row, movement, now)
    if movement.fee_minor:
        fee = money.nano_from_minor(movement.fee_minor, movement.currency)
        transfers = templates.dispute_fee(amount=fee, currency=movement.currency)
        _post(row, "dispute_fee", movement, transfers, now)
    booked.save(force_insert=True)


def _book_out(row: Dispute, movement: Movement, now: datetime) -> int:
    """Book that money was withdrawn; return what of it the customer no longer had."""
    owner, currency = row.organization.public_id, movement.currency
    amount = money.nano_from_minor(-movement.amount_minor, currency)
    tax = _tax_in(row.topup, amount, currency)
    free = max(0, balances.free_of(_locked(owner, currency)[Kind.CUSTOMER_CREDIT]))
    transfers = templates.dispute_out(organization=owner, amount=amount, tax=tax, free=free, currency=currency)
    _post(row, "dispute_out", movement, transfers, now)
    bus.announce("leases", str(row.organization_id))
    return max(0, amount - tax - free)


def _book_back(row: Dispute, movement: Movement, now: datetime) -> None:
    amount = money.nano_from_minor(movement.amount_minor, movement.currency)
    tax = _tax_in(row.topup, amount, movement.currency)
    _locked(row.organization.public_id, movement.currency)
    incoming.book(
        organization=row.organization,
        money=Money(net_nano=amount - tax, tax_nano=tax, currency=movement.currency, into=Kind.STRIPE_BALANCE),
        source=Source(kind="dispute_back", key=f"dispute_back:{movement.id}", type="dispute", id=row.stripe_dispute),
        actor=SYSTEM_ACTOR,
        now=now,
    )


def _tax_in(topup: TopUp, amount: int, currency: str) -> int:
    """Return the tax in what a dispute moved, the same on the way out and back."""
    minor = amount // money.nano_per_minor(currency)
    purchase = Purchase(paid=topup.amount_minor + topup.tax_minor, tax=topup.tax_minor, refunded=0, refunded_tax=0)
    return int(money.nano_from_minor(refund_rules.tax_part(purchase, amount=minor), currency))


def _locked(owner: str, currency: str) -> dict[str, LedgerAccount]:
    """Lock the customer's accounts in their order and return them by kind."""
    ledger.accounts([(Kind.CUSTOMER_CREDIT, owner), (Kind.CUSTOMER_RECEIVABLE, owner)], currency=currency)
    ids = LedgerAccount.objects.filter(owner=owner).values_list("pk", flat=True)
    return {row.kind: row for row in locks.accounts(list(ids)).values()}


def _note_status(row: Dispute, seen: Seen, now: datetime) -> None:
    before, row.status = row.status, seen.status
    row.evidence_due_at, row.seen_at = seen.evidence_due_at, now
    if seen.status == rules.LOST and row.lost_at is None:
        row.lost_at = now
    row.save(update_fields=["status", "evidence_due_at", "seen_at", "lost_at"])
    if before != seen.status:
        _record(row, f"dispute.{seen.status}"[:64], SYSTEM_ACTOR, now)


def _write_off(dispute_id: int, now: datetime) -> None:
    with transaction.atomic():
        row = locks.dispute(dispute_id)
        if row.status != rules.LOST or row.written_off_at is not None:
            return
        owner = row.organization.public_id
        owed = balances.balance_of(_locked(owner, row.currency)[Kind.CUSTOMER_RECEIVABLE])
        amount = min(owed, debt_of(row))
        if amount > 0:
            ledger.post(
                kind="debt_written_off",
                key=f"debt_written_off:{row.stripe_dispute}",
                source_type="dispute",
                source_id=row.stripe_dispute,
                transfers=templates.debt_written_off(organization=owner, amount=amount, currency=row.currency),
                actor=SYSTEM_ACTOR,
                now=now,
                note=f"lost on {row.lost_at:%Y-%m-%d}",
            )
        row.written_off_at = now
        row.save(update_fields=["written_off_at"])
        _record(row, "dispute.written_off", SYSTEM_ACTOR, now, nano=str(amount))


def _post(row: Dispute, kind: str, movement: Movement, transfers: list[ledger.Transfer], now: datetime) -> None:
    ledger.post(
        kind=kind,
        key=f"{kind}:{movement.id}",
        source_type="dispute",
        source_id=row.stripe_dispute,
        transfers=transfers,
        actor=SYSTEM_ACTOR,
        now=now,
    )


def _record(row: Dispute, event: str, actor: Actor, now: datetime, **more: object) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=row.stripe_dispute,
        organization=row.organization.public_id,
        detail={
            "topup": row.topup.public_id,
            "reason": row.reason,
            "amount_minor": row.amount_minor,
            "currency": row.currency,
            **more,
        },
        now=now,
    )
