"""Operator pages: months, open and closed, and their files for an accountant. Main route `operators:periods`."""

from datetime import UTC, date, datetime, timedelta

from django.contrib import messages
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.billing.models import ClosedPeriod
from portal.billing.rules import periods as rules
from portal.billing.rules.periods import Period
from portal.billing.selectors import closed_balances, journal
from portal.billing.services import closing
from portal.core import clock
from portal.core.money import decimal_text
from portal.operators import ledger_queries as queries
from portal.operators.access import OperatorRequest, operator_page
from portal.operators.ledger import JOURNAL_HEADER, journal_cells


@operator_page
def periods(request: OperatorRequest) -> HttpResponse:
    """Show the month that runs, the one before it where it is open, and every closed one with its digest."""
    now = clock.now()
    closed = list(closed_balances.closes())
    until = closed[0].ends_at if closed else None
    running = rules.month_of(now)
    before = rules.month_before(running)
    open_ = [running] if until and until >= before.ends_at else [running, before]
    context = {
        "open": [(one, rules.may_close(one, now=now), one.ends_at + rules.CLOSING_DELAY) for one in open_],
        "closed": closed,
    }
    return render(request, "operators/periods.html", context)


@require_POST
@operator_page
def close(request: OperatorRequest, month: str) -> HttpResponse:
    """Close a month that is over; it cannot be opened again."""
    closed = closing.close_period(period=_period(month), actor=request.actor, now=clock.now())
    messages.success(request, f"{closed} is closed. Its digest is {closed.sha256}.")
    return redirect("operators:periods")


@operator_page
def journal_csv(request: OperatorRequest, month: str) -> HttpResponseBase:
    """Answer every transfer that took effect in a month as CSV, oldest first."""
    period = _period(month)
    asked = journal.Asked(first=_day(period.starts_at), last=_day(period.ends_at) - timedelta(days=1))
    return queries.csv_file(
        name=f"journal-{period}.csv", header=JOURNAL_HEADER, rows=journal_cells(journal.oldest(asked=asked))
    )


@operator_page
def balances_csv(request: OperatorRequest, month: str) -> HttpResponseBase:
    """Answer what a month was closed with as CSV: the lines that its digest is over. Raises Http404."""
    period = ClosedPeriod.objects.filter(starts_at=_period(month).starts_at).first()
    if period is None:
        raise Http404("this month is not closed")
    cells = (
        (code, currency, decimal_text(debits), decimal_text(credits_))
        for code, currency, debits, credits_ in closed_balances.lines(period=period)
    )
    return queries.csv_file(
        name=f"balances-{period}.csv", header=("account", "currency", "debits", "credits"), rows=cells
    )


def _day(moment: datetime) -> date:
    return moment.astimezone(UTC).date()


def _period(month: str) -> Period:
    try:
        return rules.month_of(datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC))
    except ValueError as error:
        raise Http404("a month looks like 2026-11") from error


urlpatterns = [
    path("ledger/months/", periods, name="periods"),
    path("ledger/months/<str:month>/close/", close, name="period-close"),
    path("ledger/months/<str:month>/journal.csv", journal_csv, name="period-journal"),
    path("ledger/months/<str:month>/balances.csv", balances_csv, name="period-balances"),
]
