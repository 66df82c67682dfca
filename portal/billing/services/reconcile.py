"""Compares the ledger with everything it must equal."""

from collections.abc import Iterator
from datetime import datetime

from django.conf import settings

from portal.billing.models import Statement
from portal.billing.rules import statements as rules
from portal.billing.rules.differences import Difference
from portal.billing.selectors import books, clearing, closed_balances, refund_differences
from portal.billing.selectors import differences as selector
from portal.core import db, money
from portal.metering.selectors import hours

_NANO_DIGITS = 9


def differences(*, now: datetime) -> list[Difference]:
    """Return all that differs, from one snapshot of the database; `now` decides what waits for too long."""
    with db.one_snapshot():
        return [
            *selector.found(),
            *selector.waiting(now=now),
            *clearing.differences(now=now),
            *refund_differences.found(digits=_NANO_DIGITS - money.exponent(settings.CURRENCY)),
            *closed_balances.differences(),
            *books.differences(),
            *_damaged_statements(),
            *_differing_hours(),
        ]


def _damaged_statements() -> Iterator[Difference]:
    for statement in Statement.objects.order_by("id").iterator():
        actual = rules.digest(statement.content)
        if actual != statement.sha256:
            yield Difference("statement_changed", statement.number, statement.sha256, actual)
        gap = rules.from_json(statement.content).gap_nano
        if gap:
            yield Difference("statement_does_not_add_up", statement.number, "0", str(gap))


def _differing_hours() -> Iterator[Difference]:
    for day in hours.differing_days(since=hours.complete_since()):
        yield Difference("usage_hours_differ", str(day.day), day.recorded, day.summed)
