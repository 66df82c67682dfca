"""Periodic work of the billing room."""

import logging

from celery import shared_task
from django.conf import settings

from portal.billing import credit_tasks, refund_tasks
from portal.billing.services import (
    availability,
    books,
    held_earnings,
    lease_sweep,
    maturity,
    posting,
    price_notices,
    reserve,
    retention,
    spend_watch,
    statements,
    topup_sweep,
    topups,
)
from portal.core import clock

log = logging.getLogger(__name__)


@shared_task(name="billing.post_usage", acks_late=True)
def post_usage(**_: object) -> None:
    """Book what the gateways have delivered."""
    posted = posting.post_all(now=clock.now())
    if posted.unpostable:
        log.error("billing.usage_unpostable", extra={"records": posted.unpostable})


@shared_task(name="billing.mature_earnings", acks_late=True)
def mature_earnings(**_: object) -> None:
    """Make earnings available whose time has come, and what of them was kept back long enough."""
    now = clock.now()
    maturity.mature(now=now)
    reserve.release_due(now=now)


@shared_task(name="billing.freeze_statements", acks_late=True)
def freeze_statements(**_: object) -> None:
    """Close the month that is over and freeze its statements."""
    statements.freeze_month(now=clock.now())


@shared_task(name="billing.drop_old_usage", acks_late=True)
def drop_old_usage(**_: object) -> None:
    """Let the usage records go whose time is over."""
    now = clock.now()
    first_kept = retention.horizon(now=now, days=settings.USAGE_RETENTION_DAYS)
    if first_kept is not None:
        retention.drop_before(day=first_kept, now=now)


@shared_task(name="billing.publish_books", acks_late=True)
def publish_books(**_: object) -> None:
    """Freeze the days that are over, as they are published."""
    books.freeze_days(now=clock.now())


@shared_task(name="billing.fulfil_topup", acks_late=True)
def fulfil_topup(*, topup_id: int, **_: object) -> None:
    """Bring one purchase to where Stripe says it is."""
    topups.fulfil(topup_id=topup_id, now=clock.now())


@shared_task(name="billing.sweep_topups", acks_late=True)
def sweep_topups(**_: object) -> None:
    """Finish purchases that nobody else finished."""
    topup_sweep.sweep(now=clock.now())


@shared_task(name="billing.sweep_leases", acks_late=True)
def sweep_leases(**_: object) -> None:
    """End leases whose process no longer asks for them, and close those whose charges are all booked."""
    lease_sweep.sweep(now=clock.now())


@shared_task(name="billing.watch_spend", acks_late=True)
def watch_spend(**_: object) -> None:
    """Tell owners of keys that spend far more today than they used to."""
    spend_watch.watch(now=clock.now())


@shared_task(name="billing.watch_held", acks_late=True)
def watch_held(**_: object) -> None:
    """Compare what is held for unidentified providers with its caps, and let routing follow."""
    held_earnings.watch(now=clock.now())


@shared_task(name="billing.release_held", acks_late=True)
def release_held(*, provider: str, **_: object) -> None:
    """Let one identified provider's held earnings mature."""
    held_earnings.release(provider=provider, now=clock.now())


@shared_task(name="billing.sweep_held", acks_late=True)
def sweep_held(**_: object) -> None:
    """Release held earnings that nobody else released."""
    held_earnings.release_all(now=clock.now())


@shared_task(name="billing.expire_held", acks_late=True)
def expire_held(**_: object) -> None:
    """Forfeit what was held for too long, where the pool's policy says so."""
    held_earnings.expire(now=clock.now())


@shared_task(name="billing.tell_prices", acks_late=True)
def tell_prices(**_: object) -> None:
    """Tell customers of prices that will hold soon, and of those that were taken back."""
    now = clock.now()
    price_notices.tell(now=now)
    price_notices.withdraw(now=now)


@shared_task(name="billing.pay_availability", acks_late=True)
def pay_availability(**_: object) -> None:
    """Pay providers for the hours that their machines stood ready."""
    availability.pay(now=clock.now())


BEAT = {
    **refund_tasks.BEAT,
    "billing.tell_prices": 600,
    "billing.pay_availability": 600,
    **credit_tasks.BEAT,
    "billing.watch_held": 5,
    "billing.sweep_held": 60,
    "billing.expire_held": 3600,
    "billing.post_usage": 2,
    "billing.mature_earnings": 30,
    "billing.freeze_statements": 3600,
    "billing.publish_books": 3600,
    "billing.drop_old_usage": 86_400,
    "billing.sweep_topups": 60,
    "billing.sweep_leases": 30,
    "billing.watch_spend": 300,
}
