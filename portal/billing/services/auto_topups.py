"""Charging a saved card when the credit is low: the row first, one at a time, never beyond the month's cap.

Row and cap are written under the lock of the settings' row; the call happens outside every transaction, under a key
and parameters frozen in the row. An answer that nobody has is looked up, and no second charge begins before it is
found.
"""

import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction

from portal.accounts.models import OrganizationState
from portal.audit.services import SYSTEM_ACTOR
from portal.billing import locks
from portal.billing.models import AutoTopUp, TopUp, TopUpOrigin, TopUpState
from portal.billing.models.topups import UNFINISHED
from portal.billing.rules import auto_topups as rules
from portal.billing.rules.auto_topups import Refused
from portal.billing.selectors import balances, low_credit
from portal.billing.selectors import topups as selectors
from portal.billing.services import auto_outcomes, credit_messages, freeze, topup_books, topup_guard, topups
from portal.billing.services.topup_guard import PurchaseRefused
from portal.core import money
from portal.core.errors import DomainError
from portal.integrations import queue, stripe
from portal.integrations.stripe_errors import (
    CardDeclined,
    PaymentOutcomeUnknown,
    PaymentRateLimited,
    PaymentRejected,
)
from portal.integrations.stripe_types import Payment, PaymentOrder

log = logging.getLogger(__name__)


def begin(*, organization_id: int, now: datetime) -> TopUp | None:
    """Write the row of an automatic purchase if the credit is low and the settings let one begin; None where not."""
    with transaction.atomic():
        plan = locks.auto_topup(organization_id)
        if plan is None or not _may_begin(plan, now):
            return None
        spent = selectors.auto_since(organization_id=organization_id, since=rules.month_start(now))
        if not rules.has_room(spent_minor=spent, amount_minor=plan.amount_minor, cap_minor=plan.monthly_cap_minor):
            credit_messages.auto_topup_capped(organization=plan.organization, cap_minor=plan.monthly_cap_minor, now=now)
            return None
        refusal = topup_guard.refusal_of_automatic(
            organization=plan.organization, amount_minor=plan.amount_minor, now=now
        )
        if refusal is not None:
            _rest(plan, refusal, now)
            return None
        topup = _row(plan, now)
        topup_books.record(topup, "topup.created", actor=SYSTEM_ACTOR, now=now)
        queue.after_commit("billing.charge_auto_topup", topup_id=topup.pk)
    return topup


def _may_begin(plan: AutoTopUp, now: datetime) -> bool:
    owner = plan.organization
    if settings.STRIPE_AUTOMATIC_TAX:  # Stripe adds tax on its own page alone
        return False
    if freeze.is_frozen() or not plan.is_on or plan.card is None or (plan.retry_at is not None and now < plan.retry_at):
        return False
    if owner.state != OrganizationState.ACTIVE or owner.stopped_for:
        return False
    if TopUp.objects.filter(organization=owner, origin=TopUpOrigin.AUTO, state__in=UNFINISHED).exists():
        return False
    balance = balances.customer_balance(organization=owner.public_id)
    return balance.free_nano < money.nano_from_minor(plan.threshold_minor, settings.CURRENCY)


def _rest(plan: AutoTopUp, refusal: PurchaseRefused, now: datetime) -> None:
    """Try again when the guard's time has come, and within a day, since facts may change; tell the owners once."""
    plan.retry_at = min(refusal.again_at or now + rules.GUARD_ASKED_EVERY, now + rules.GUARD_ASKED_EVERY)
    plan.save(update_fields=["retry_at"])
    log.warning("auto_topup.refused", extra={"organization": plan.organization.public_id, "code": refusal.code})
    credit_messages.auto_topup_refused(plan=plan, refusal=refusal, now=now)


def _row(plan: AutoTopUp, now: datetime) -> TopUp:
    return TopUp.objects.create(
        organization=plan.organization,
        created_by=plan.set_by,
        amount_minor=plan.amount_minor,
        currency=settings.CURRENCY,
        origin=TopUpOrigin.AUTO,
        card=plan.card.stripe_card if plan.card else "",
        stripe_customer=selectors.stripe_customer_of(plan.organization_id),
        created_at=now,
    )


def charge(*, topup_id: int, now: datetime) -> TopUp:
    """Charge the card, if nobody else has begun to; whatever the answer, the row says it afterwards."""
    waiting = TopUp.objects.filter(pk=topup_id, state=TopUpState.CREATED, sent_at=None)
    claimed = not freeze.is_frozen() and waiting.update(sent_at=now)
    topup = TopUp.objects.select_related("organization").get(pk=topup_id)
    return _send(topup, now) if claimed else topup


def _send(topup: TopUp, now: datetime) -> TopUp:
    order = PaymentOrder(
        topup=topup.public_id,
        organization=topup.organization.public_id,
        customer=topup.stripe_customer,
        card=topup.card,
        amount_minor=topup.amount_minor,
        currency=topup.currency,
    )
    try:
        payment = stripe.payments().charge_card(key=f"autotopup:{topup.public_id}", order=order)
    except CardDeclined as error:
        refused = Refused(error.stripe_code, error.decline_code)
        return auto_outcomes.refuse(topup_id=topup.pk, refused=refused, payment=error.payment, now=now)
    except PaymentRejected as error:
        refused = Refused(error.stripe_code, is_bad_call=True)
        return auto_outcomes.refuse(topup_id=topup.pk, refused=refused, payment="", now=now)
    except PaymentRateLimited:
        # Stripe did not begin: the next round sends the same again.
        TopUp.objects.filter(pk=topup.pk, state=TopUpState.CREATED).update(sent_at=None)
        return TopUp.objects.get(pk=topup.pk)
    except PaymentOutcomeUnknown as error:
        return _unknown(topup, f"{error.stripe_code}: {error.message}", now)
    return _accept(topup, payment, now)


def _accept(topup: TopUp, payment: Payment, now: datetime) -> TopUp:
    done, problem = auto_outcomes.accept(topup_id=topup.pk, seen=payment, now=now)
    if problem:
        log.error("auto_topup.mismatch", extra={"topup": topup.public_id, "problem": problem})
    return done


def _unknown(topup: TopUp, reason: str, now: datetime) -> TopUp:
    with transaction.atomic():
        row = locks.topup(topup.pk)
        if row.state == TopUpState.CREATED:
            topup_books.move(row, TopUpState.UNKNOWN, f"Stripe's answer is not known ({reason})", now=now)
    return row


def advance(*, topup_id: int, now: datetime) -> TopUp:
    """Bring an automatic purchase that nobody finished one step on. Raises PaymentError, TopUpMismatch."""
    topup = TopUp.objects.select_related("organization").get(pk=topup_id)
    if topup.state == TopUpState.CREATED and topup.sent_at is None:
        return charge(topup_id=topup_id, now=now)
    if topup.state == TopUpState.CREATED and topup.sent_at is not None:
        return _unknown(topup, "its worker died", now) if now - topup.sent_at >= stripe.SILENT_AFTER else topup
    if topup.state == TopUpState.UNKNOWN:
        return _find(topup, now)
    if topup.state == TopUpState.NEEDS_ACTION and topup.confirmation_id is None:
        return open_confirmation(topup_id=topup_id, now=now)
    return topups.fulfil(topup_id=topup_id, now=now)


def _find(topup: TopUp, now: datetime) -> TopUp:
    """Look an unknown outcome up; where Stripe has nothing, repeat the very same call while its key is remembered."""
    found = auto_outcomes.payment_of(topup)
    if found is not None:
        return _accept(topup, found, now)
    if freeze.is_frozen():
        return topup
    age = now - (topup.sent_at or now)
    if age < rules.REPEATED_FOR:
        return _send(topup, now)
    if age < rules.GIVEN_UP_AFTER:
        return topup
    with transaction.atomic():
        locks.auto_topup(topup.organization_id)
        row = locks.topup(topup.pk)
        if row.state == TopUpState.UNKNOWN:
            topup_books.move(row, TopUpState.FAILED, "Stripe has no payment of it: nothing was charged", now=now)
    return row


def open_confirmation(*, topup_id: int, now: datetime) -> TopUp:
    """Make the hosted page on which a card's owner confirms the amount, and send its address.

    Raises PaymentOutcomeUnknown, PaymentRateLimited (call again).
    """
    topup = TopUp.objects.select_related("organization", "created_by").get(pk=topup_id)
    if topup.state != TopUpState.NEEDS_ACTION or topup.confirmation_id is not None:
        return topup
    wanted = topups.Wanted(
        amount_minor=topup.amount_minor,
        client_key=f"confirm:{topup.public_id}",
        created_by=topup.created_by,
        saves_card=True,
    )
    try:
        page = topups.start_topup(organization=topup.organization, wanted=wanted, actor=SYSTEM_ACTOR, now=now)
    except (PaymentOutcomeUnknown, PaymentRateLimited):
        raise
    except DomainError as error:
        return _give_up(topup, f"the page to confirm on could not be made: {error.message}", now)
    with transaction.atomic():
        row = locks.topup(topup_id)
        if row.confirmation_id is None:
            row.confirmation = page
            row.save(update_fields=["confirmation"])
            credit_messages.auto_topup_confirm(
                organization=topup.organization, topup=row, url=page.checkout_url, now=now
            )
    return row


def _give_up(topup: TopUp, reason: str, now: datetime) -> TopUp:
    with transaction.atomic():
        plan = locks.auto_topup(topup.organization_id)
        row = locks.topup(topup.pk)
        topup_books.move(row, TopUpState.FAILED, reason, now=now)
        if plan is not None:
            auto_outcomes.turn_off(plan, topup=row, reason=reason, now=now)
    return row


def begin_due(*, now: datetime) -> int:
    """Begin an automatic purchase for everyone whose credit is low; return how many began."""
    found = low_credit.wanting_auto_topup(now=now)
    return sum(begin(organization_id=organization_id, now=now) is not None for organization_id in found)
