"""Closes months: after it nothing takes effect before the month's end, and what it closed with is chained by digest."""

from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR, Actor
from portal.billing import locks
from portal.billing.errors import PeriodNotOver
from portal.billing.models import ClosedPeriod, PeriodBalance
from portal.billing.rules import closing as rules
from portal.billing.rules import periods
from portal.billing.rules.periods import Period
from portal.billing.selectors import sums


def close_period(*, period: Period, now: datetime, actor: Actor = SYSTEM_ACTOR) -> ClosedPeriod:
    """Close a month, and all before it, for every party; a second call changes nothing. Raises PeriodNotOver.

    There is no way to open it again.
    """
    if not periods.may_close(period, now=now):
        raise PeriodNotOver(f"{period} can be closed from {period.ends_at + periods.CLOSING_DELAY:%Y-%m-%d %H:%M} UTC")
    with transaction.atomic():
        locks.closing_period()
        known = ClosedPeriod.objects.filter(starts_at__gte=period.starts_at).order_by("starts_at").first()
        return known or _close(period, actor, now)


def _close(period: Period, actor: Actor, now: datetime) -> ClosedPeriod:
    before = sums.last_close(at=period.starts_at)
    balances = sums.sums_at(at=period.ends_at)
    previous = before.sha256 if before else ""
    closed = ClosedPeriod.objects.create(
        starts_at=period.starts_at,
        ends_at=period.ends_at,
        closed_at=now,
        closed_by=actor.public_id,
        previous_sha256=previous,
        sha256=rules.period_digest(
            period=str(period),
            previous=previous,
            lines=[(row.code, row.currency, row.debits, row.credits) for row in balances],
        ),
    )
    PeriodBalance.objects.bulk_create(
        [
            PeriodBalance(period=closed, account_id=row.account_id, debits=row.debits, credits=row.credits)
            for row in balances
        ],
        batch_size=5000,
    )
    audit.record(actor=actor, event="period.closed", subject=str(period), now=now, detail={"sha256": closed.sha256})
    return closed
