"""Work on refunds, disputes and customers' risk; `tasks` takes it in."""

import logging
from datetime import timedelta

from celery import shared_task

from portal.billing.selectors import disputes as dispute_selectors
from portal.billing.services import disputes, refund_reading, refund_sending, related, risk
from portal.core import clock
from portal.integrations.stripe_errors import PaymentError

READ_AGAIN_AFTER = timedelta(hours=6)

log = logging.getLogger(__name__)


@shared_task(name="billing.send_refund", acks_late=True)
def send_refund(*, refund_id: int, **_: object) -> None:
    """Send one approved refund."""
    refund_sending.send(refund_id=refund_id, now=clock.now())


@shared_task(name="billing.read_refunds", acks_late=True)
def read_refunds(*, charge: str, **_: object) -> None:
    """Bring every refund of a charge to where Stripe says it is."""
    refund_reading.read(charge=charge, now=clock.now())


@shared_task(name="billing.sweep_refunds", acks_late=True)
def sweep_refunds(**_: object) -> None:
    """Send, look up and finish the refunds that nobody else did."""
    refund_reading.sweep(now=clock.now())


@shared_task(name="billing.sweep_disputes", acks_late=True)
def sweep_disputes(**_: object) -> None:
    """Read open disputes again, and write off what was lost long enough ago."""
    now = clock.now()
    for dispute in dispute_selectors.open_disputes(seen_before=now - READ_AGAIN_AFTER):
        try:
            disputes.read(dispute=dispute, now=now)
        except (PaymentError, refund_reading.PurchaseUnknown) as error:
            log.warning("dispute.not_read", extra={"dispute": dispute, "code": error.code})
    disputes.write_off_due(now=now)


@shared_task(name="billing.judge_customer", acks_late=True)
def judge_customer(*, organization_id: int, **_: object) -> None:
    """Judge one customer by what is known of its payments."""
    risk.judge(organization_id=organization_id, now=clock.now())


@shared_task(name="billing.judge_customers", acks_late=True)
def judge_customers(**_: object) -> None:
    """Judge the customers whom nobody has judged for a while or since they paid."""
    risk.judge_due(now=clock.now())


@shared_task(name="billing.find_related", acks_late=True)
def find_related(**_: object) -> None:
    """Look for organizations that are one party."""
    related.look(now=clock.now())


BEAT = {
    "billing.sweep_refunds": 60,
    "billing.sweep_disputes": 600,
    "billing.judge_customers": 60,
    "billing.find_related": 60,
}
