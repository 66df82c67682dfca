"""Reads a charge's refunds at Stripe: ours move on, those made in Stripe's dashboard are booked, each once.

What a dashboard refund takes beyond the customer's free credit is owed by the customer.
"""

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import ClassVar

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.billing import locks
from portal.billing.models import ForeignCharge, LedgerAccount, Refund, RefundOrigin, RefundState, TopUp
from portal.billing.rules import accounts as chart
from portal.billing.rules import refunds as rules
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.selectors import refunds as selectors
from portal.billing.services import ledger, refund_moves, refund_outcomes, refund_sending, templates
from portal.billing.services.refund_moves import Wish
from portal.core.errors import NotFound
from portal.integrations import bus, stripe
from portal.integrations.stripe_errors import PaymentError
from portal.integrations.stripe_types import Refund as Seen

log = logging.getLogger(__name__)
PENDING_FOR = timedelta(hours=1)


class PurchaseUnknown(NotFound):
    """The payment carries the name of a purchase that is not here, or is not credited yet; it may come."""

    code: ClassVar[str] = "purchase_unknown"


@dataclass(frozen=True, slots=True)
class About:
    """What a refund, dispute or warning is about at Stripe; `amount_minor` and `currency` where it has them."""

    id: str
    kind: str
    charge: str
    payment: str
    amount_minor: int | None = None
    currency: str = ""


def read(*, charge: str, now: datetime) -> int:
    """Bring every refund of a charge to where Stripe says it is; return how many there are.

    Raises PurchaseUnknown (come again), PaymentError.
    """
    found = stripe.payments().refunds_of(charge=charge)
    if not found:
        return 0
    about = [About(one.id, "refund", one.charge, one.payment, one.amount_minor, one.currency) for one in found]
    topup = purchase_for(about=about[0], now=now)
    if topup is None:
        for other in about[1:]:
            note_foreign(about=other, now=now)
        return len(found)
    for one in sorted(found, key=lambda seen: (seen.created_at, seen.id)):
        _take(topup, one, now)
    return len(found)


def purchase_for(*, about: About, now: datetime) -> TopUp | None:
    """Return the purchase that this is about; None where it is none of ours, which is noted once.

    Raises PurchaseUnknown where the payment names a purchase of ours that is not credited here, PaymentError.
    """
    topup = selectors.topup_of_charge(charge=about.charge, payment=about.payment)
    if topup is not None:
        return topup
    reference = stripe.payments().payment(payment=about.payment).reference if about.payment else ""
    if reference:
        raise PurchaseUnknown(f"{about.id} is about purchase {reference}, which is not credited here")
    note_foreign(about=about, now=now)
    return None


def note_foreign(*, about: About, now: datetime) -> ForeignCharge:
    """Keep that something was about no purchase of ours, once."""
    with transaction.atomic():
        row, is_new = ForeignCharge.objects.get_or_create(
            stripe_object=about.id,
            defaults={
                "kind": about.kind,
                "charge": about.charge,
                "payment": about.payment,
                "amount_minor": about.amount_minor,
                "currency": about.currency,
                "noted_at": now,
            },
        )
        if is_new:
            audit.record(
                actor=SYSTEM_ACTOR,
                event=f"{about.kind}.foreign",
                subject=about.id,
                now=now,
                detail={"charge": about.charge, "payment": about.payment, "amount_minor": about.amount_minor},
            )
    return row


def sweep(*, now: datetime) -> None:
    """Send what waits, find out what is in doubt, read what Stripe has not finished, collect what is owed.

    One that fails does not stop the others.
    """
    for refund_id in selectors.to_send(now=now):
        try:
            refund_sending.send(refund_id=refund_id, now=now)
        except PaymentError as error:
            log.warning("refund.not_sent", extra={"refund_id": refund_id, "code": error.code})
    for refund_id in selectors.in_doubt(silent_since=now - stripe.SILENT_AFTER):
        try:
            refund_sending.reconcile(refund_id=refund_id, now=now)
        except PaymentError as error:
            log.warning("refund.not_reconciled", extra={"refund_id": refund_id, "code": error.code})
    for charge in selectors.pending(changed_before=now - PENDING_FOR):
        try:
            read(charge=charge, now=now)
        except (PaymentError, PurchaseUnknown) as error:
            log.warning("refund.not_read", extra={"charge": charge, "code": error.code})
    for owner in selectors.indebted():
        collect(organization=owner, now=now)


def collect(*, organization: str, now: datetime) -> int:
    """Pay what the organization (public id) owes from credit that came free since; return how much (nano)."""
    codes = [chart.code(kind, organization) for kind in (Kind.CUSTOMER_CREDIT, Kind.CUSTOMER_RECEIVABLE)]
    with transaction.atomic():
        ids = LedgerAccount.objects.filter(code__in=codes).values_list("pk", flat=True)
        locked = {row.kind: row for row in locks.accounts(list(ids)).values()}
        credit, debt = locked.get(Kind.CUSTOMER_CREDIT), locked.get(Kind.CUSTOMER_RECEIVABLE)
        if credit is None or debt is None:
            return 0
        amount = min(balances.free_of(credit), balances.balance_of(debt))
        if amount <= 0:
            return 0
        ledger.post(
            kind="debt_collected",
            key=f"debt_collected:{organization}:{debt.debits}:{debt.credits}",
            source_type="organization",
            source_id=organization,
            transfers=templates.debt_collected(organization=organization, amount=amount, currency=credit.currency),
            actor=SYSTEM_ACTOR,
            now=now,
        )
        bus.announce("organizations", organization)
    return amount


def _take(topup: TopUp, found: Seen, now: datetime) -> Refund | None:
    """Move the row of a refund, or write one for a refund that was made at Stripe."""
    row = Refund.objects.filter(stripe_refund=found.id).first()
    if row is None and found.reference:
        row = Refund.objects.filter(public_id=found.reference).first()
    if row is not None and not (row.stripe_refund is None and row.state in rules.CAME_TO_NOTHING):
        return refund_outcomes.seen(refund_id=row.pk, found=found, now=now)
    if rules.state_of(found.status) == RefundState.FAILED and not found.movement:
        return None  # it came to nothing before we heard of it: no money ever moved
    with transaction.atomic():
        topup = locks.topup(topup.pk)
        if Refund.objects.filter(stripe_refund=found.id).exists():
            return None
        wish = Wish(found.amount_minor, RefundOrigin.STRIPE, RefundState.SENDING, "made at Stripe")
        refund = refund_moves.set_aside(topup=topup, wish=wish, actor=SYSTEM_ACTOR, now=now)
        return refund_outcomes.seen(refund_id=refund.pk, found=found, now=now)
