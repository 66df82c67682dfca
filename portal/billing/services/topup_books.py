"""What every purchase ends in, however it was paid: its credit once, its fee once, its state and who hears of it."""

from dataclasses import dataclass
from datetime import datetime

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing.models import TopUp, TopUpState
from portal.billing.rules import topups as rules
from portal.billing.rules.accounts import Kind
from portal.billing.services import cards, charges, credit_alerts, incoming, ledger, templates
from portal.billing.services.incoming import Money, Source
from portal.core import money
from portal.integrations import queue, stripe
from portal.integrations.stripe_types import Checkout, Payment, SavedCard


@dataclass(frozen=True, slots=True)
class Paid:
    """A payment that Stripe has taken; `amount_minor` is all of it, `tax_minor` the part that is tax."""

    payment_intent: str
    charge: str
    amount_minor: int
    tax_minor: int
    currency: str
    customer: str
    reference: str
    is_live: bool
    fee_minor: int | None
    fee_currency: str
    invoice: str
    invoice_url: str
    receipt_url: str
    card: SavedCard | None
    is_three_d_secure: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """Where Stripe says a purchase stands; `paid` where money was taken."""

    state: TopUpState
    reason: str = ""
    paid: Paid | None = None


def paid_by_checkout(seen: Checkout) -> Paid:
    """Return what a paid session says."""
    return Paid(
        payment_intent=seen.payment_intent,
        charge=seen.charge,
        amount_minor=seen.amount_minor,
        tax_minor=seen.tax_minor,
        currency=seen.currency,
        customer=seen.customer,
        reference=seen.reference,
        is_live=seen.is_live,
        fee_minor=seen.fee_minor,
        fee_currency=seen.fee_currency,
        invoice=seen.invoice,
        invoice_url=seen.invoice_url,
        receipt_url=seen.receipt_url,
        card=seen.card,
        is_three_d_secure=seen.is_three_d_secure,
    )


def paid_by_card(seen: Payment) -> Paid:
    """Return what a succeeded payment says."""
    return Paid(
        payment_intent=seen.id,
        charge=seen.charge,
        amount_minor=seen.received_minor,
        tax_minor=0,
        currency=seen.currency,
        customer=seen.customer,
        reference=seen.reference,
        is_live=seen.is_live,
        fee_minor=seen.fee_minor,
        fee_currency=seen.fee_currency,
        invoice="",
        invoice_url="",
        receipt_url=seen.receipt_url,
        card=seen.card,
    )


def settle(topup: TopUp, look: Look, *, now: datetime) -> str:
    """Move the locked row to where Stripe says it is; credit a paid one once. Return what does not match."""
    if look.paid is None:
        if topup.state != TopUpState.PAID:
            move(topup, look.state, look.reason, now=now)
        return ""
    if topup.state == TopUpState.PAID:
        _book_fee(topup, look.paid, now)
        return ""
    problem = rules.mismatch(topup, _seen(look.paid), is_live=stripe.is_live_mode())
    if problem:
        move(topup, TopUpState.FAILED, f"mismatch in {problem}", now=now)
        return problem
    _credit(topup, look.paid, now)
    _book_fee(topup, look.paid, now)
    return ""


def _seen(paid: Paid) -> rules.Seen:
    return rules.Seen(
        reference=paid.reference,
        amount_minor=paid.amount_minor - paid.tax_minor,
        currency=paid.currency,
        customer=paid.customer,
        is_live=paid.is_live,
    )


def _credit(topup: TopUp, paid: Paid, now: datetime) -> None:
    """Post the money, keep its documents and the card, and tell everyone who waits for it."""
    credit_alerts.begin(
        organization=topup.organization, paid_minor=topup.amount_minor, currency=topup.currency, now=now
    )
    incoming.book(
        organization=topup.organization,
        money=Money(
            net_nano=money.nano_from_minor(topup.amount_minor, topup.currency),
            tax_nano=money.nano_from_minor(paid.tax_minor, topup.currency),
            currency=topup.currency,
            into=Kind.STRIPE_BALANCE,
        ),
        source=Source(kind="topup", key=f"topup:{paid.payment_intent}", type="topup", id=topup.public_id),
        actor=SYSTEM_ACTOR,
        now=now,
    )
    topup.state, topup.state_reason, topup.checkout_url = TopUpState.PAID, "", ""
    topup.payment_intent, topup.charge, topup.paid_at = paid.payment_intent, paid.charge, now
    topup.tax_minor, topup.invoice = paid.tax_minor, paid.invoice
    topup.invoice_url, topup.receipt_url = paid.invoice_url, paid.receipt_url
    topup.save(
        update_fields=[
            "state",
            "state_reason",
            "checkout_url",
            "payment_intent",
            "charge",
            "paid_at",
            "tax_minor",
            "invoice",
            "invoice_url",
            "receipt_url",
        ]
    )
    charges.note(
        topup=topup,
        charge=paid.charge,
        payment=paid.payment_intent,
        card=paid.card,
        is_three_d_secure=paid.is_three_d_secure,
        now=now,
    )
    if topup.saves_card and paid.card is not None:
        cards.keep(organization=topup.organization, card=paid.card, now=now)
    record(topup, "topup.paid", actor=SYSTEM_ACTOR, now=now)
    for waiting in TopUp.objects.filter(confirmation=topup).values_list("pk", flat=True):
        queue.after_commit("billing.fulfil_topup", topup_id=waiting)


def _book_fee(topup: TopUp, paid: Paid, now: datetime) -> None:
    """Post Stripe's fee once it is known; the sweeper asks again until then."""
    if topup.fee_minor is not None or paid.fee_minor is None or paid.fee_currency != topup.currency:
        return
    if paid.fee_minor:
        ledger.post(
            kind="stripe_fee",
            key=f"stripe-fee:{topup.payment_intent}",
            source_type="topup",
            source_id=topup.public_id,
            transfers=templates.stripe_fee(
                amount=money.nano_from_minor(paid.fee_minor, topup.currency), currency=topup.currency
            ),
            actor=SYSTEM_ACTOR,
            now=now,
        )
    topup.fee_minor = paid.fee_minor
    topup.save(update_fields=["fee_minor"])


def move(topup: TopUp, state: TopUpState, reason: str, *, now: datetime) -> None:
    """Note where the locked row stands now, with the reason, unless it stood there already."""
    if (topup.state, topup.state_reason) == (state, reason[:240]):
        return
    topup.state, topup.state_reason = state, reason[:240]
    topup.save(update_fields=["state", "state_reason"])
    record(topup, f"topup.{state.value}", actor=SYSTEM_ACTOR, now=now)


def record(topup: TopUp, event: str, *, actor: Actor, now: datetime) -> None:
    """Write the event into the audit log."""
    audit.record(
        actor=actor,
        event=event,
        subject=topup.public_id,
        now=now,
        organization=topup.organization.public_id,
        detail={
            "amount_minor": topup.amount_minor,
            "currency": topup.currency,
            "origin": topup.origin,
            "reason": topup.state_reason,
        },
    )
