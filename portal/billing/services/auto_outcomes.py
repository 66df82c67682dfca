"""What Stripe's answer to an automatic purchase means: credit, a pause, the end, or that its owner has to confirm.

Whoever hears of it (the call itself, a webhook, the sweeper) comes here; the settings' row is locked first.
"""

from datetime import datetime, timedelta

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.billing import locks
from portal.billing.models import AutoTopUp, TopUp, TopUpState
from portal.billing.models.topups import UNFINISHED
from portal.billing.rules import auto_topups as rules
from portal.billing.rules.auto_topups import Refused
from portal.billing.services import credit_messages, topup_books
from portal.billing.services.topup_books import Look
from portal.integrations import queue, stripe
from portal.integrations.stripe_types import Payment

# Stripe's clock and ours may differ a little.
_CLOCKS_DIFFER = timedelta(minutes=5)


def look(*, topup: TopUp, now: datetime) -> tuple[TopUp, str]:
    """Ask Stripe for the automatic purchase's payment and bring the row there; return it and what does not match.

    Where Stripe has no payment for it yet, nothing changes.
    """
    seen = payment_of(topup)
    if seen is not None:
        return accept(topup_id=topup.pk, seen=seen, now=now)
    return topup, ""


def payment_of(topup: TopUp) -> Payment | None:
    """Return the payment that Stripe has for this purchase: by its id, or among its customer's by our reference."""
    if topup.payment_intent:
        return stripe.payments().payment(payment=topup.payment_intent)
    if topup.sent_at is None:
        return None
    since = topup.created_at - _CLOCKS_DIFFER
    found = stripe.payments().payments_of(customer=topup.stripe_customer, since=since)
    mine = [payment for payment in found if payment.reference == topup.public_id]
    return next((payment for payment in mine if payment.status == "succeeded"), next(iter(mine), None))


def accept(*, topup_id: int, seen: Payment, now: datetime) -> tuple[TopUp, str]:
    """Bring the row to where this payment says it is; return it and what does not match."""
    with transaction.atomic():
        plan, topup = _lock(topup_id)
        if topup.payment_intent is None:
            topup.payment_intent = seen.id
            topup.save(update_fields=["payment_intent"])
        if seen.status == "succeeded":
            was_paid = topup.state == TopUpState.PAID
            problem = topup_books.settle(topup, Look(TopUpState.PAID, paid=topup_books.paid_by_card(seen)), now=now)
            if plan is not None and problem:
                turn_off(plan, topup=topup, reason=f"Stripe's payment differs in {problem}", now=now)
            elif plan is not None and not was_paid:
                _heal(plan)
            return topup, problem
        if topup.state == TopUpState.NEEDS_ACTION:
            _follow_confirmation(topup, plan, now)
        elif topup.state in UNFINISHED:
            _note(topup, plan, seen, now)
    return topup, ""


def refuse(*, topup_id: int, refused: Refused, payment: str, now: datetime) -> TopUp:
    """Stripe said no to the call itself; `payment` is the payment that it made of it, where it made one."""
    with transaction.atomic():
        plan, topup = _lock(topup_id)
        if topup.state in UNFINISHED and topup.state != TopUpState.NEEDS_ACTION:
            if payment and topup.payment_intent is None:
                topup.payment_intent = payment
                topup.save(update_fields=["payment_intent"])
            _refused(topup, plan, refused, now)
    return topup


def _lock(topup_id: int) -> tuple[AutoTopUp | None, TopUp]:
    organization_id = TopUp.objects.values_list("organization_id", flat=True).get(pk=topup_id)
    plan = locks.auto_topup(organization_id)
    return plan, locks.topup(topup_id)


def _note(topup: TopUp, plan: AutoTopUp | None, seen: Payment, now: datetime) -> None:
    if seen.status == "processing":
        topup_books.move(topup, TopUpState.PROCESSING, "waiting for the bank", now=now)
    elif seen.status in {"requires_action", "requires_confirmation"}:
        _ask_owner(topup, now)
    else:
        _refused(topup, plan, Refused(seen.failure_code or seen.status, seen.decline_code), now)


def _refused(topup: TopUp, plan: AutoTopUp | None, refused: Refused, now: datetime) -> None:
    if refused.needs_owner:
        _ask_owner(topup, now)
        return
    topup_books.move(topup, TopUpState.FAILED, refused.words, now=now)
    if plan is None:
        return
    after = rules.setback(failures=plan.failures, refused=refused, now=now)
    plan.failures, plan.retry_at = after.failures, after.retry_at
    plan.save(update_fields=["failures", "retry_at"])
    if after.is_off:
        turn_off(plan, topup=topup, reason=refused.words, now=now)


def _ask_owner(topup: TopUp, now: datetime) -> None:
    topup_books.move(topup, TopUpState.NEEDS_ACTION, "the card's bank wants its owner to confirm", now=now)
    queue.after_commit("billing.open_confirmation", topup_id=topup.pk)


def _follow_confirmation(topup: TopUp, plan: AutoTopUp | None, now: datetime) -> None:
    """End an attempt whose owner was asked to confirm once that page is done with."""
    asked = topup.confirmation
    if asked is None or asked.state in UNFINISHED:
        return
    if asked.state == TopUpState.PAID:
        topup_books.move(topup, TopUpState.FAILED, f"paid on a page instead: {asked.public_id}", now=now)
        if plan is not None:
            _heal(plan)
        return
    reason = "its owner did not confirm in time"
    topup_books.move(topup, TopUpState.FAILED, reason, now=now)
    if plan is not None:
        turn_off(plan, topup=topup, reason=reason, now=now)


def _heal(plan: AutoTopUp) -> None:
    plan.failures, plan.retry_at = 0, None
    plan.save(update_fields=["failures", "retry_at"])


def turn_off(plan: AutoTopUp, *, topup: TopUp, reason: str, now: datetime) -> None:
    """Stop charging the card, and tell the owners why."""
    if not plan.is_on:
        return
    plan.is_on, plan.off_reason, plan.changed_at = False, reason[:240], now
    plan.save(update_fields=["is_on", "off_reason", "changed_at"])
    owner = plan.organization
    audit.record(
        actor=SYSTEM_ACTOR,
        event="auto_topup.off",
        subject=owner.public_id,
        now=now,
        organization=owner.public_id,
        detail={"reason": reason, "topup": topup.public_id},
    )
    credit_messages.auto_topup_off(organization=owner, topup=topup, reason=reason, now=now)
