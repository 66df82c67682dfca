"""Periodic work of the payouts room."""

import logging
from datetime import timedelta

from celery import shared_task

from portal.audit.services import SYSTEM_ACTOR
from portal.core import clock
from portal.integrations.stripe_errors import PaymentError
from portal.payouts.errors import AccountGone, PayoutNotSendable
from portal.payouts.selectors import accounts as account_selectors
from portal.payouts.services import (
    accounts,
    destinations,
    drafts,
    ledger_checks,
    plans,
    reversals,
    run_checks,
    runs,
    sending,
    stripe_books,
)

LOOK_AGAIN_AFTER = timedelta(hours=6)

log = logging.getLogger(__name__)


@shared_task(name="payouts.send_payout", acks_late=True)
def send_payout(*, payout_id: int, **_: object) -> None:
    """Send one approved payout; where another worker was faster there is nothing left to do."""
    try:
        sending.send(payout_id=payout_id, now=clock.now())
    except PayoutNotSendable as error:
        log.info("payout.not_sendable", extra={"payout_id": payout_id, "reason": error.message})


@shared_task(name="payouts.run", acks_late=True)
def run(**_: object) -> None:
    """Find out about unknown payouts and send what waits."""
    runs.run(now=clock.now())


@shared_task(name="payouts.draft_due", acks_late=True)
def draft_due(**_: object) -> None:
    """Draft payouts for those whose turn it is, and end the accounts of those who have left."""
    now = clock.now()
    drafted = drafts.draft_due(now=now, actor=SYSTEM_ACTOR)
    if drafted.run is not None:
        log.info("payout.drafted", extra={"run": drafted.run.public_id, "payouts": len(drafted.payouts)})
    plans.settle_left(now=now)


@shared_task(name="payouts.check_runs", acks_late=True)
def check_runs(**_: object) -> None:
    """Check the runs that nobody has checked yet, so that operators find them ready."""
    run_checks.check_new(now=clock.now())


@shared_task(name="payouts.send_reversal", acks_late=True)
def send_reversal(*, reversal_id: int, **_: object) -> None:
    """Take one transfer back, or find out that it was."""
    reversals.send(reversal_id=reversal_id, now=clock.now())


@shared_task(name="payouts.sweep_reversals", acks_late=True)
def sweep_reversals(**_: object) -> None:
    """Make the calls again that Stripe has not answered, and those that were never enqueued."""
    now = clock.now()
    for reversal_id in reversals.open_reversals():
        reversals.send(reversal_id=reversal_id, now=now)


@shared_task(name="payouts.refresh_account", acks_late=True)
def refresh_account(*, provider_id: str, **_: object) -> None:
    """Read one provider's account at Stripe."""
    accounts.refresh(provider_id=provider_id, now=clock.now())


@shared_task(name="payouts.refresh_accounts", acks_late=True)
def refresh_accounts(**_: object) -> None:
    """Read every account that nobody has looked at for a while: an event may have been lost."""
    now = clock.now()
    for provider_id in account_selectors.unsettled(fetched_before=now - LOOK_AGAIN_AFTER):
        try:
            accounts.refresh(provider_id=provider_id, now=now)
        except (PaymentError, AccountGone) as error:
            log.warning("payout.account_not_read", extra={"provider": provider_id, "code": error.code})


@shared_task(name="payouts.sync_stripe_books", acks_late=True)
def sync_stripe_books(**_: object) -> None:
    """Take over what is new in Stripe's own books."""
    try:
        stripe_books.sync(now=clock.now())
    except PaymentError as error:
        log.warning("stripe_books.not_read", extra={"code": error.code})


@shared_task(name="payouts.check_ledger", acks_late=True)
def check_ledger(**_: object) -> None:
    """Compare the ledger with everything it must equal, Stripe's own books among it, and tell what differs."""
    ledger_checks.run(now=clock.now())


@shared_task(name="payouts.resume_held", acks_late=True)
def resume_held(**_: object) -> None:
    """Let payouts go on that rested because their destination was changed."""
    destinations.resume_held(now=clock.now())


BEAT = {
    "payouts.draft_due": 3600,
    "payouts.resume_held": 300,
    "payouts.run": 60,
    "payouts.check_runs": 60,
    "payouts.sweep_reversals": 300,
    "payouts.refresh_accounts": 600,
    "payouts.sync_stripe_books": 3600,
    "payouts.check_ledger": 86_400,
}
