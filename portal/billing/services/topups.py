"""Buying credit: the row first, then a hosted Checkout page, then at most one credit a PaymentIntent.

`fulfil` is called by the webhook, by the return page and by the sweeper; whoever comes first does the work.
"""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction
from django.urls import reverse

from portal.accounts.models import Organization, User
from portal.audit.services import Actor
from portal.billing import locks
from portal.billing.errors import KeyReused
from portal.billing.models import StripeCustomer, TopUp, TopUpOrigin, TopUpState
from portal.billing.selectors import topups as selectors
from portal.billing.services import auto_outcomes, topup_books, topup_guard
from portal.billing.services.topup_books import Look
from portal.core.errors import Conflict
from portal.integrations import stripe
from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_types import Checkout, CheckoutOrder, CustomerOrder


class TopUpMismatch(Conflict):
    """Stripe's session differs from what was asked for: nothing is credited until an operator has looked."""

    code = "topup_mismatch"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What someone wants to buy; the same `client_key` is the same purchase.

    `saves_card`: the buyer lets the pool keep the card for automatic purchases.
    """

    amount_minor: int
    client_key: str
    created_by: User | None = None
    saves_card: bool = False


def start_topup(*, organization: Organization, wanted: Wanted, actor: Actor, now: datetime) -> TopUp:
    """Open a Checkout page for the purchase.

    Raises InvalidValue, KeyReused, what `topup_guard.require` raises, PaymentRejected, PaymentOutcomeUnknown (call
    again with the same key).
    """
    topup_guard.require_amount(wanted.amount_minor)
    topup = _row(organization, wanted, actor, now)
    if topup.state != TopUpState.CREATED:
        return topup
    return _open_checkout(topup, now)


def _row(organization: Organization, wanted: Wanted, actor: Actor, now: datetime) -> TopUp:
    known = _known(organization, wanted)
    if known is not None:
        return known
    topup = TopUp(
        organization=organization,
        created_by=wanted.created_by,
        amount_minor=wanted.amount_minor,
        currency=settings.CURRENCY,
        client_key=wanted.client_key,
        saves_card=wanted.saves_card,
        created_at=now,
    )
    try:
        with transaction.atomic():
            topup.asks_3ds = topup_guard.require(
                organization=organization, amount_minor=wanted.amount_minor, address=actor.address, now=now
            ).asks_3ds
            topup.save(force_insert=True)
            topup_books.record(topup, "topup.created", actor=actor, now=now)
    except IntegrityError:
        return _known(organization, wanted) or topup
    return topup


def _known(organization: Organization, wanted: Wanted) -> TopUp | None:
    """Return the purchase that the key stands for already. Raises KeyReused where it is another one."""
    known = TopUp.objects.filter(organization=organization, client_key=wanted.client_key).first()
    if known is None or not wanted.client_key:
        return None
    if (known.amount_minor, known.saves_card) != (wanted.amount_minor, wanted.saves_card):
        raise KeyReused(f"this key already stands for {known.public_id}, which differs")
    return known


def _open_checkout(topup: TopUp, now: datetime) -> TopUp:
    customer = _customer(topup, now)
    page = settings.PUBLIC_URL + reverse("customer:topup", args=[topup.public_id])
    order = CheckoutOrder(
        topup=topup.public_id,
        organization=topup.organization.public_id,
        customer=customer,
        amount_minor=topup.amount_minor,
        currency=topup.currency,
        product_name=f"{settings.POOL_NAME} credit",
        success_url=page,
        cancel_url=settings.PUBLIC_URL + reverse("customer:credit"),
        saves_card=topup.saves_card,
        asks_3ds=topup.asks_3ds,
        collects_tax=settings.STRIPE_AUTOMATIC_TAX,
    )
    try:
        session = stripe.payments().create_checkout(key=f"topup:{topup.public_id}", order=order)
    except PaymentRejected as error:
        with transaction.atomic():
            reason = f"{error.stripe_code}: {error.message}"
            topup_books.move(locks.topup(topup.pk), TopUpState.FAILED, reason, now=now)
        raise
    with transaction.atomic():
        row = locks.topup(topup.pk)
        if row.state == TopUpState.CREATED:
            row.state, row.stripe_customer = TopUpState.OPEN, customer
            row.checkout_session, row.checkout_url = session.id, session.url
            row.save(update_fields=["state", "stripe_customer", "checkout_session", "checkout_url"])
    return row


def _customer(topup: TopUp, now: datetime) -> str:
    """Return the organization's customer id, creating the customer with what our row says."""
    email = topup.created_by.email if topup.created_by else ""
    row, _ = StripeCustomer.objects.get_or_create(
        organization=topup.organization,
        defaults={"name": topup.organization.name, "email": email, "created_at": now},
    )
    if row.stripe_customer:
        return row.stripe_customer
    public_id = topup.organization.public_id
    order = CustomerOrder(organization=public_id, name=row.name, email=row.email)
    made = stripe.payments().create_customer(key=f"customer:{public_id}", order=order)
    StripeCustomer.objects.filter(pk=row.pk, stripe_customer=None).update(stripe_customer=made)
    return StripeCustomer.objects.values_list("stripe_customer", flat=True).get(pk=row.pk) or made


def fulfil(*, topup_id: int, now: datetime) -> TopUp:
    """Bring the purchase to where Stripe says it is; credit a paid one once. Raises TopUpMismatch.

    This is the one way there for Checkout and for saved cards, for webhooks, pages and sweepers.
    """
    topup = TopUp.objects.get(pk=topup_id)
    if topup.state == TopUpState.PAID and topup.fee_minor is not None:
        return topup
    if topup.origin == TopUpOrigin.AUTO:
        topup, problem = auto_outcomes.look(topup=topup, now=now)
    elif topup.checkout_session:
        topup, problem = _look(topup, now)
    else:
        return topup
    if problem:
        raise TopUpMismatch(
            f"{topup.public_id} differs: {problem}", fix="compare the payment at Stripe, then refund it"
        )
    return topup


def _look(topup: TopUp, now: datetime) -> tuple[TopUp, str]:
    seen = stripe.payments().checkout(session=topup.checkout_session)
    with transaction.atomic():
        topup = locks.topup(topup.pk)
        return topup, topup_books.settle(topup, _meaning(topup, seen), now=now)


def _meaning(topup: TopUp, seen: Checkout) -> Look:
    if seen.payment_status == "paid":
        return Look(TopUpState.PAID, paid=topup_books.paid_by_checkout(seen))
    if seen.status == "expired":
        return Look(TopUpState.EXPIRED, "the page was not used in time")
    if seen.status == "complete":
        if seen.failure:
            return Look(TopUpState.FAILED, seen.failure)
        return Look(TopUpState.PROCESSING, "waiting for the bank")
    return Look(TopUpState(topup.state), topup.state_reason)


def id_of_payment(*, payment: str) -> int | None:
    """Return the purchase that a payment at Stripe pays, None where it pays none of ours. Raises PaymentError."""
    known = selectors.id_of_payment(payment)
    if known is not None:
        return known
    return selectors.id_of_reference(stripe.payments().payment(payment=payment).reference)


def give_up(*, topup_id: int, now: datetime) -> TopUp:
    """Close a purchase whose Checkout page was never handed to anyone, so nobody can have paid it."""
    with transaction.atomic():
        topup = locks.topup(topup_id)
        if topup.state == TopUpState.CREATED:
            topup_books.move(topup, TopUpState.EXPIRED, "the payment page was never opened", now=now)
    return topup
