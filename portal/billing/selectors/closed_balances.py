"""What months were closed with, and whether that still is what the ledger says."""

from collections.abc import Iterator

from django.db.models import QuerySet

from portal.billing.models import ClosedPeriod, PeriodBalance
from portal.billing.rules import closing as rules
from portal.billing.rules.closing import BalanceLine
from portal.billing.rules.differences import Difference
from portal.billing.selectors import sums


def closes(*, limit: int = 120) -> QuerySet[ClosedPeriod]:
    """Return closed months, newest first."""
    return ClosedPeriod.objects.order_by("-starts_at")[:limit]


def lines(*, period: ClosedPeriod) -> list[BalanceLine]:
    """Return what a month was closed with, by account code."""
    rows = PeriodBalance.objects.filter(period=period).order_by("account__code")
    return list(rows.values_list("account__code", "account__currency", "debits", "credits"))


def differences() -> Iterator[Difference]:
    """Yield closes whose digest no longer fits, and balances of the last one that the ledger does not give any more."""
    previous, last = "", None
    for last in ClosedPeriod.objects.order_by("starts_at"):
        expected = rules.period_digest(period=str(last), previous=previous, lines=lines(period=last))
        if (last.previous_sha256, last.sha256) != (previous, expected):
            yield Difference("period_changed", str(last), expected, last.sha256)
        previous = last.sha256
    if last is not None:
        yield from _moved(last)


def _moved(last: ClosedPeriod) -> Iterator[Difference]:
    now = {row.code: (row.debits, row.credits) for row in sums.sums_at(at=last.ends_at, is_whole=True)}
    then = {code: (debits, credits_) for code, _, debits, credits_ in lines(period=last)}
    for code in sorted(now.keys() | then.keys()):
        ours, closed = now.get(code, (0, 0)), then.get(code, (0, 0))
        if ours != closed:
            subject = f"{last} {code}"
            yield Difference("period_balance_differs", subject, "{}/{}".format(*closed), "{}/{}".format(*ours))
