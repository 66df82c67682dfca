"""Periodic and queued work around credit: saved cards, alerts, expiry, paying afterwards."""

import logging

from celery import shared_task

from portal.billing.services import auto_topups, cards, credit_alerts, grants, postpaid_bills
from portal.core import clock
from portal.integrations.stripe_errors import PaymentError

log = logging.getLogger(__name__)


@shared_task(name="billing.watch_credit", acks_late=True)
def watch_credit(*, organization_id: int, **_: object) -> None:
    """Look at one organization whose credit may have become low."""
    now = clock.now()
    auto_topups.begin(organization_id=organization_id, now=now)
    credit_alerts.judge(organization_id=organization_id, now=now)


@shared_task(name="billing.sweep_credit", acks_late=True)
def sweep_credit(**_: object) -> None:
    """Look at everyone whose credit may have become low, in case nobody else did."""
    now = clock.now()
    auto_topups.begin_due(now=now)
    credit_alerts.judge_all(now=now)


@shared_task(name="billing.charge_auto_topup", acks_late=True)
def charge_auto_topup(*, topup_id: int, **_: object) -> None:
    """Charge the saved card of one automatic purchase."""
    auto_topups.charge(topup_id=topup_id, now=clock.now())


@shared_task(name="billing.open_confirmation", acks_late=True)
def open_confirmation(*, topup_id: int, **_: object) -> None:
    """Make the page on which a card's owner confirms, and send its address."""
    try:
        auto_topups.open_confirmation(topup_id=topup_id, now=clock.now())
    except PaymentError as error:
        log.warning("auto_topup.confirmation_later", extra={"topup": topup_id, "code": error.code})


@shared_task(name="billing.forget_card", acks_late=True)
def forget_card(*, card_id: int, **_: object) -> None:
    """Have Stripe let a removed card go."""
    try:
        cards.forget(card_id=card_id, now=clock.now())
    except PaymentError as error:
        log.warning("card.forget_failed", extra={"card": card_id, "code": error.code})


@shared_task(name="billing.sweep_cards", acks_late=True)
def sweep_cards(**_: object) -> None:
    """Have Stripe let go the removed cards that it still has."""
    cards.sweep(now=clock.now())


@shared_task(name="billing.expire_promo", acks_late=True)
def expire_promo(**_: object) -> None:
    """Take promotional credit whose time is over, and warn of what ends soon."""
    now = clock.now()
    grants.expire_due(now=now)
    grants.warn_due(now=now)


@shared_task(name="billing.watch_bills", acks_late=True)
def watch_bills(**_: object) -> None:
    """Make the bills of closed months, note what was paid, stop and resume who is overdue."""
    postpaid_bills.make_due(now=clock.now())
    postpaid_bills.watch(now=clock.now())


BEAT = {
    "billing.sweep_credit": 15,
    "billing.sweep_cards": 3600,
    "billing.expire_promo": 60,
    "billing.watch_bills": 300,
}
