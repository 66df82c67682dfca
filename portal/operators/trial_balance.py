"""Operator pages: the trial balance at any moment. Main route `operators:trial-balance`."""

from datetime import datetime, timedelta

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from portal.billing.selectors import ledger_accounts, sums
from portal.billing.selectors.sums import AccountSums
from portal.core import clock
from portal.core.money import decimal_text
from portal.operators import ledger_queries as queries
from portal.operators.access import OperatorRequest, operator_page

_SHOWN = 500
_HEADER = ("account", "kind", "owner", "currency", "debits", "credits", "debit_balance", "credit_balance")


@operator_page
def trial_balance(request: OperatorRequest) -> HttpResponse:
    """Show every balance as it was at a moment, by kind and by account; both sides must be equal."""
    at = _at(request)
    rows = sums.sums_at(at=at)
    kinds = ledger_accounts.summed_by_kind(rows)
    debit, credit = sum(row.debit_nano for row in kinds), sum(row.credit_nano for row in kinds)
    context = {
        "at": at,
        "kinds": kinds,
        "debit_nano": debit,
        "credit_nano": credit,
        "difference_nano": debit - credit,
        "rows": [(row, *_sides(row)) for row in rows[:_SHOWN]],
        "count": len(rows),
        "is_cut": len(rows) > _SHOWN,
        "csv_query": queries.query(request, "at"),
    }
    return render(request, "operators/trial_balance.html", context)


@operator_page
def trial_balance_csv(request: OperatorRequest) -> HttpResponseBase:
    """Answer every account's sums as they were at a moment as CSV, with full precision."""
    at = _at(request)
    cells = (
        (
            row.code,
            row.kind,
            row.owner,
            row.currency,
            decimal_text(row.debits),
            decimal_text(row.credits),
            *(decimal_text(side) for side in _sides(row)),
        )
        for row in sums.sums_at(at=at)
    )
    return queries.csv_file(name=f"trial-balance-{at:%Y-%m-%dT%H%M}.csv", header=_HEADER, rows=cells)


def _at(request: HttpRequest) -> datetime:
    """Return the moment asked for; by default the end of the minute that runs."""
    return queries.moment(request, "at", default=clock.now().replace(second=0, microsecond=0) + timedelta(minutes=1))


def _sides(row: AccountSums) -> tuple[int, int]:
    return (row.balance_nano, 0) if row.is_debit_normal else (0, row.balance_nano)


urlpatterns = [
    path("ledger/trial-balance/", trial_balance, name="trial-balance"),
    path("ledger/trial-balance.csv", trial_balance_csv, name="trial-balance-csv"),
]
