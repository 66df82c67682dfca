"""Buying credit: the row first, then a hosted Checkout page, then at most one credit a PaymentIntent.

`fulfil` is called by the webhook, by the return page and by the sweeper; whoever comes first does the work.
"""

from datetime import datetime

from django.conf import settings
from django.db import IntegrityError, transaction
from django.urls import reverse

from portal.accounts.models import Organization, User
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.errors import KeyReused
from portal.billing.models import StripeCustomer, TopUp, TopUpState
from portal.billing.rules import topups as rules
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.billing.services import ledger, templates
from portal.core import money
from portal.core.errors import Conflict, InvalidValue
from portal.integrations import bus, stripe
from portal.integrations.stripe_errors import PaymentRejected
from portal.integrations.stripe_types import Checkout, CheckoutOrder, CustomerOrder


class TopUpMismatch(Conflict):
    """Stripe's session differs from what was asked for: nothing is credited until an operator has looked."""

    code = "topup_mismatch"


def start_topup(
    *,
    organization: Organization,
    amount_minor: int,
    client_key: str,
    created_by: User | None,
    actor: Actor,
    now: datetime,
) -> TopUp:
    """Open a Checkout page for the purchase; the same `client_key` is the same purchase.

    Raises InvalidValue, KeyReused, PaymentRejected, PaymentOutcomeUnknown (call again with the same key).
    """
    least, most = rules.least_minor(settings.CURRENCY), rules.most_minor(settings.CURRENCY)
    if not least <= amount_minor <= most:
        raise InvalidValue(f"an amount is {least} to {most} minor units", param="amount")
    topup = _row(organization, amount_minor, client_key, created_by, actor, now)
    if topup.state != TopUpState.CREATED:
        return topup
    return _open_checkout(topup, now)


def _row(
    organization: Organization,
    amount_minor: int,
    client_key: str,
    created_by: User | None,
    actor: Actor,
    now: datetime,
) -> TopUp:
    topup = TopUp(
        organization=organization,
        created_by=created_by,
        amount_minor=amount_minor,
        currency=settings.CURRENCY,
        client_key=client_key,
        created_at=now,
    )
    try:
        with transaction.atomic():
            topup.save(force_insert=True)
            _record(topup, "topup.created", actor=actor, now=now)
    except IntegrityError:
        topup = TopUp.objects.get(organization=organization, client_key=client_key)
        if topup.amount_minor != amount_minor:
            raise KeyReused(f"this key already stands for {topup.public_id} with another amount") from None
    return topup


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
    )
    try:
        session = stripe.payments().create_checkout(key=f"topup:{topup.public_id}", order=order)
    except PaymentRejected as error:
        _fail(topup, reason=f"{error.stripe_code}: {error.message}", now=now)
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
    """Bring the purchase to where Stripe says it is; credit a paid one once. Raises TopUpMismatch."""
    topup = TopUp.objects.get(pk=topup_id)
    if not topup.checkout_session or (topup.state == TopUpState.PAID and topup.fee_minor is not None):
        return topup
    seen = stripe.payments().checkout(session=topup.checkout_session)
    with transaction.atomic():
        topup = locks.topup(topup_id)
        problem = _apply(topup, seen, now)
    if problem:
        raise TopUpMismatch(
            f"{topup.public_id} differs: {problem}", fix="compare the payment at Stripe, then refund it"
        )
    return topup


def _apply(topup: TopUp, seen: Checkout, now: datetime) -> str:
    """Move the locked row; return what does not match."""
    if topup.state == TopUpState.PAID:
        _book_fee(topup, seen, now)
        return ""
    state, reason = _state(topup, seen)
    if state != TopUpState.PAID:
        _move(topup, state, reason, now)
        return ""
    problem = rules.mismatch(topup, _seen(seen), is_live=stripe.is_live_mode())
    if problem:
        _move(topup, TopUpState.FAILED, f"mismatch in {problem}", now)
        return problem
    _credit(topup, seen, now)
    _book_fee(topup, seen, now)
    return ""


def _state(topup: TopUp, seen: Checkout) -> tuple[TopUpState, str]:
    if seen.payment_status == "paid":
        return TopUpState.PAID, ""
    if seen.status == "expired":
        return TopUpState.EXPIRED, "the page was not used in time"
    if seen.status == "complete":
        return (TopUpState.FAILED, seen.failure) if seen.failure else (TopUpState.PROCESSING, "waiting for the bank")
    return TopUpState(topup.state), topup.state_reason


def _seen(seen: Checkout) -> rules.Seen:
    return rules.Seen(
        reference=seen.reference,
        amount_minor=seen.amount_minor,
        currency=seen.currency,
        customer=seen.customer,
        is_live=seen.is_live,
    )


def _credit(topup: TopUp, seen: Checkout, now: datetime) -> None:
    """Post the money and tell everyone who waits for it."""
    organization = topup.organization.public_id
    net = money.nano_from_minor(topup.amount_minor, topup.currency)
    ledger.post(
        kind="topup",
        key=f"topup:{seen.payment_intent}",
        source_type="topup",
        source_id=topup.public_id,
        transfers=templates.topup_paid(
            organization=organization,
            net=net,
            tax=0,
            debt=_open_debt(organization, net, topup.currency),
            currency=topup.currency,
        ),
        actor=SYSTEM_ACTOR,
        now=now,
    )
    topup.state, topup.state_reason = TopUpState.PAID, ""
    topup.payment_intent, topup.paid_at, topup.checkout_url = seen.payment_intent, now, ""
    topup.save(update_fields=["state", "state_reason", "payment_intent", "paid_at", "checkout_url"])
    _record(topup, "topup.paid", actor=SYSTEM_ACTOR, now=now)
    bus.announce("leases", str(topup.organization_id))
    bus.announce("organizations", organization)


def _open_debt(organization: str, net: int, currency: str) -> int:
    """Return how much of the money pays debt, with the debt's account locked until the posting commits."""
    receivable = ledger.account(Kind.CUSTOMER_RECEIVABLE, organization, currency=currency)
    locked = locks.accounts([receivable.pk])[receivable.pk]
    return min(net, balances.balance_of(locked))


def _book_fee(topup: TopUp, seen: Checkout, now: datetime) -> None:
    """Post Stripe's fee once it is known; the sweeper asks again until then."""
    if topup.fee_minor is not None or seen.fee_minor is None or seen.fee_currency != topup.currency:
        return
    if seen.fee_minor:
        ledger.post(
            kind="stripe_fee",
            key=f"stripe-fee:{topup.payment_intent}",
            source_type="topup",
            source_id=topup.public_id,
            transfers=templates.stripe_fee(
                amount=money.nano_from_minor(seen.fee_minor, topup.currency), currency=topup.currency
            ),
            actor=SYSTEM_ACTOR,
            now=now,
        )
    topup.fee_minor = seen.fee_minor
    topup.save(update_fields=["fee_minor"])


def _fail(topup: TopUp, *, reason: str, now: datetime) -> None:
    with transaction.atomic():
        _move(locks.topup(topup.pk), TopUpState.FAILED, reason, now)


def _move(topup: TopUp, state: TopUpState, reason: str, now: datetime) -> None:
    if (topup.state, topup.state_reason) == (state, reason[:240]):
        return
    topup.state, topup.state_reason = state, reason[:240]
    topup.save(update_fields=["state", "state_reason"])
    _record(topup, f"topup.{state.value}", actor=SYSTEM_ACTOR, now=now)


def _record(topup: TopUp, event: str, *, actor: Actor, now: datetime) -> None:
    audit.record(
        actor=actor,
        event=event,
        subject=topup.public_id,
        now=now,
        organization=topup.organization.public_id,
        detail={"amount_minor": topup.amount_minor, "currency": topup.currency, "reason": topup.state_reason},
    )


def give_up(*, topup_id: int, now: datetime) -> TopUp:
    """Close a purchase whose Checkout page was never handed to anyone, so nobody can have paid it."""
    with transaction.atomic():
        topup = locks.topup(topup_id)
        if topup.state == TopUpState.CREATED:
            _move(topup, TopUpState.EXPIRED, "the payment page was never opened", now)
    return topup
