"""Lets old usage records go: whole days, once nothing is left to do with them, with their sums kept.

What a day came to by customer and provider stays, and so do postings, hours, days, statements and the ledger.
"""

import logging
from datetime import date, datetime, timedelta

from django.db import connection, transaction
from django.db.models import Max

from portal.audit import services as audit
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import ClosedPeriod, EarningMaturity, HeldEarning, StatementKind, UsagePosting
from portal.billing.rules import periods
from portal.billing.selectors import statements
from portal.metering.errors import UsageStillNeeded
from portal.metering.services import partitions

log = logging.getLogger(__name__)

_ARCHIVE = """
    INSERT INTO billing_archivedusage (opened_on, organization_id, provider_id, records, charge_nano, earned_nano)
    SELECT usage.opened_on, usage.organization_id, usage.provider_id, count(*),
        coalesce(sum(posting.charge_nano), 0), coalesce(sum(posting.provider_nano), 0)
    FROM metering_usagerecord usage
    LEFT JOIN billing_usageposting posting ON usage.opened_on = posting.opened_on
        AND usage.request_id = posting.request_id AND usage.attempt = posting.attempt
    WHERE usage.opened_on = %s GROUP BY 1, 2, 3
"""
_ARCHIVE_BUDGETS = """
    UPDATE billing_budgetwindow SET archived_nano = archived_nano + gone.nano
    FROM (
        SELECT lease.window_id, sum(part.nano)::bigint AS nano
        FROM metering_usagerecord usage JOIN billing_usageposting posting ON usage.opened_on = posting.opened_on
            AND usage.request_id = posting.request_id AND usage.attempt = posting.attempt
        CROSS JOIN LATERAL unnest(usage.budget_lease_ids, usage.budget_charges) AS part (lease_id, nano)
        JOIN billing_budgetlease lease ON lease.id = part.lease_id
        WHERE usage.opened_on = %s GROUP BY 1
    ) gone WHERE gone.window_id = billing_budgetwindow.id
"""


def drop_before(*, day: date, now: datetime) -> list[date]:
    """Drop each day before `day` that nobody needs any more, the oldest first; return those that were dropped."""
    dropped = []
    for old in partitions.days_before(day):
        try:
            drop_day(day=old, now=now)
        except UsageStillNeeded as reason:
            log.warning("billing.usage_kept", extra={"day": str(old), "reason": reason.message})
        else:
            dropped.append(old)
    return dropped


def drop_day(*, day: date, now: datetime) -> None:
    """Keep what the day came to and drop its records. Raises UsageStillNeeded."""
    with transaction.atomic():
        partitions.lock(day)
        _require_done(day)
        with connection.cursor() as cursor:
            cursor.execute(_ARCHIVE, [day])
            cursor.execute(_ARCHIVE_BUDGETS, [day])
        gone = partitions.drop(day, now=now)
        audit.record(
            actor=SYSTEM_ACTOR, event="usage.dropped", subject=str(day), now=now, detail={"records": gone.records}
        )


def _require_done(day: date) -> None:
    """The last booking of the day lies in a closed month with all its statements, and every earning is available."""
    postings = UsagePosting.objects.filter(opened_on=day)
    booked_at = postings.aggregate(at=Max("tx__effective_at"))["at"]
    if booked_at is None:
        return
    if EarningMaturity.objects.filter(tx__in=postings.values("tx"), matured_tx=None).exists():
        raise UsageStillNeeded(f"earnings of {day} are not available yet")
    if HeldEarning.objects.filter(tx__in=postings.values("tx"), ended_tx=None).exists():
        raise UsageStillNeeded(f"earnings of {day} are held until their provider is identified")
    month = periods.month_of(booked_at)
    if not ClosedPeriod.objects.filter(starts_at__gte=month.starts_at).exists():
        raise UsageStillNeeded(f"the month of {day} is not closed")
    for kind in StatementKind.values:
        if statements.parties_without(kind=kind, period=month):
            raise UsageStillNeeded(f"statements of the month of {day} are not frozen")


def horizon(*, now: datetime, days: int) -> date | None:
    """Return the first day that is kept; None where all are kept for ever."""
    return None if not days else now.date() - timedelta(days=days)
