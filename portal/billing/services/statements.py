"""Freezes what closed months came to for each party; late usage goes to the open month."""

from datetime import datetime

from django.conf import settings

from portal.billing.errors import PeriodNotOver
from portal.billing.models import ClosedPeriod, Statement, StatementKind
from portal.billing.rules import periods
from portal.billing.rules import statements as rules
from portal.billing.rules.periods import Period
from portal.billing.selectors import statements
from portal.billing.selectors.statements import Party
from portal.billing.services.closing import close_period
from portal.core import db


def freeze(*, party: Party, period: Period, now: datetime) -> Statement:
    """Freeze one party's statement of a closed month; a second call returns the first one. Raises PeriodNotOver."""
    if not ClosedPeriod.objects.filter(starts_at__gte=period.starts_at).exists():
        raise PeriodNotOver(f"{period} is not closed")
    with db.advisory_lock(f"poolhouse.billing.statements.{party.kind}.{period}"):
        known = Statement.objects.filter(kind=party.kind, starts_at=period.starts_at)
        mine = known.filter(party=party.public_id).first()
        if mine is not None:
            return mine
        plain = rules.to_json(statements.content(party=party, period=period, currency=settings.CURRENCY))
        return Statement.objects.create(
            number=rules.number(kind=party.kind, month=str(period), sequence=known.count() + 1),
            kind=party.kind,
            party=party.public_id,
            currency=settings.CURRENCY,
            starts_at=period.starts_at,
            ends_at=period.ends_at,
            content=plain,
            letterhead=statements.letterhead(party=party),
            sha256=rules.digest(plain),
            frozen_at=now,
        )


def freeze_month(*, now: datetime) -> int:
    """Close the month before `now` where it may be closed, and freeze the statements that closed months still lack.

    Returns how many statements were frozen.
    """
    last = periods.month_before(periods.month_of(now))
    if periods.may_close(last, now=now):
        close_period(period=last, now=now)
    frozen = 0
    for period in statements.closed_periods(limit=2):
        for kind in StatementKind.values:
            for public_id in statements.parties_without(kind=kind, period=period):
                freeze(party=Party(kind, public_id), period=period, now=now)
                frozen += 1
    return frozen
