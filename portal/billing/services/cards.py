"""Saved cards: kept when a buyer asked for it, chosen for automatic purchases, and let go."""

import logging
from datetime import datetime

from django.db import transaction

from portal.accounts.models import Organization
from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.models import AutoTopUp, CustomerCard
from portal.billing.selectors import cards as selectors
from portal.integrations import queue, stripe
from portal.integrations.stripe_errors import PaymentError, PaymentRejected
from portal.integrations.stripe_types import SavedCard

_GONE = "resource_missing"

log = logging.getLogger(__name__)


def keep(*, organization: Organization, card: SavedCard, now: datetime) -> CustomerCard:
    """Keep a card that Stripe saved; the same card again is the same row, and one that was removed stays removed."""
    row, is_new = CustomerCard.objects.get_or_create(
        stripe_card=card.id,
        defaults={
            "organization": organization,
            "brand": card.brand,
            "last4": card.last4,
            "exp_month": card.exp_month,
            "exp_year": card.exp_year,
            "fingerprint": card.fingerprint,
            "country": card.country,
            "saved_at": now,
        },
    )
    if is_new:
        _record(row, "card.saved", actor=SYSTEM_ACTOR, now=now)
    return row


def remove(*, organization: Organization, public_id: str, actor: Actor, now: datetime) -> CustomerCard:
    """Never charge the card again, and have Stripe forget it; automatic purchases by it are turned off.

    Raises NotFound.
    """
    with transaction.atomic():
        found = selectors.card_of(organization=organization, public_id=public_id)
        plan = locks.auto_topup(organization.pk)
        card = locks.card(found.pk)
        if card.removed_at is None:
            card.removed_at = now
            card.save(update_fields=["removed_at"])
            _record(card, "card.removed", actor=actor, now=now)
            if plan is not None and plan.card_id == card.pk:
                _turn_off(plan, actor, now)
            queue.after_commit("billing.forget_card", card_id=card.pk)
    return card


def _turn_off(plan: AutoTopUp, actor: Actor, now: datetime) -> None:
    was_on = plan.is_on
    plan.is_on, plan.card, plan.changed_at = False, None, now
    plan.off_reason = "its card was removed" if was_on else plan.off_reason
    plan.save(update_fields=["is_on", "card", "off_reason", "changed_at"])
    if was_on:
        audit.record(
            actor=actor,
            event="auto_topup.off",
            subject=plan.organization.public_id,
            now=now,
            organization=plan.organization.public_id,
            detail={"reason": plan.off_reason},
        )


def forget(*, card_id: int, now: datetime) -> bool:
    """Have Stripe let a removed card go; tell whether it has. Raises PaymentError where the answer is not known."""
    card = CustomerCard.objects.get(pk=card_id)
    if card.removed_at is None or card.forgotten_at is not None:
        return card.forgotten_at is not None
    try:
        stripe.payments().forget_card(key=f"forget-card:{card.public_id}", card=card.stripe_card)
    except PaymentRejected as error:
        # A card without a customer is what we want: Stripe says so by refusing to let it go twice.
        if error.stripe_code not in {_GONE, "payment_method_unexpected_state", "invalid_request_error"}:
            raise
        log.info("card.already_gone", extra={"card": card.public_id, "code": error.stripe_code})
    CustomerCard.objects.filter(pk=card_id).update(forgotten_at=now)
    return True


def sweep(*, now: datetime) -> int:
    """Have Stripe forget the removed cards that it still has; return how many it has let go."""
    forgotten = 0
    for card_id in selectors.to_forget():
        try:
            forgotten += forget(card_id=card_id, now=now)
        except PaymentError as error:
            log.warning("card.forget_failed", extra={"card": card_id, "code": error.code})
    return forgotten


def _record(card: CustomerCard, event: str, *, actor: Actor, now: datetime) -> None:
    organization = card.organization.public_id
    audit.record(
        actor=actor,
        event=event,
        subject=card.public_id,
        now=now,
        organization=organization,
        detail={"brand": card.brand, "last4": card.last4},
    )
