"""Finishes purchases that neither a webhook nor the buyer's browser finished."""

import logging
from datetime import datetime, timedelta

from portal.billing.models import TopUp, TopUpOrigin, TopUpState
from portal.billing.selectors import topups as selectors
from portal.billing.services import auto_topups, topups
from portal.integrations.stripe_errors import PaymentError

LOOK_AFTER = timedelta(minutes=1)
LOOK_FOR = timedelta(days=30)
KEY_LIFE = timedelta(hours=24)

log = logging.getLogger(__name__)


def sweep(*, now: datetime) -> int:
    """Ask Stripe about every unfinished purchase; return how many changed. One that fails does not stop the others."""
    changed = 0
    for topup_id in selectors.unfinished(since=now - LOOK_FOR, until=now - LOOK_AFTER):
        before = TopUp.objects.get(pk=topup_id)
        try:
            after = _finish(before, now)
        except (PaymentError, topups.TopUpMismatch) as error:
            log.warning("topup.sweep_failed", extra={"topup": before.public_id, "code": error.code})
            continue
        changed += (after.state, after.fee_minor) != (before.state, before.fee_minor)
    return changed


def _finish(topup: TopUp, now: datetime) -> TopUp:
    if topup.origin == TopUpOrigin.AUTO:
        return auto_topups.advance(topup_id=topup.pk, now=now)
    if topup.state != TopUpState.CREATED:
        return topups.fulfil(topup_id=topup.pk, now=now)
    # Within the key's life the buyer may still come back for the page.
    return topups.give_up(topup_id=topup.pk, now=now) if topup.created_at < now - KEY_LIFE else topup
