"""Operator page: what is left of what customers are charged. Route `operators:margin`."""

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.rules.export import csv_text
from portal.billing.selectors import margin as selectors
from portal.billing.selectors.margin import Row
from portal.core import clock
from portal.core.money import decimal_text
from portal.operators.access import OperatorRequest, operator_page

_SPANS: Final = (7, 30, 90)
_USUAL: Final = 30
_COLUMNS: Final = (
    ("charged", "charge_nano"),
    ("provider_earnings", "earned_nano"),
    ("availability_pay", "availability_nano"),
    ("house_nodes", "house_nano"),
    ("stripe_fees", "stripe_fees_nano"),
    ("write_offs", "write_offs_nano"),
    ("promotion", "promotion_nano"),
    ("corrections", "corrections_nano"),
    ("margin", "margin_nano"),
)


def _margin(request: OperatorRequest) -> selectors.Margin:
    asked = request.GET.get("days", "")
    span = int(asked) if asked.isdecimal() and int(asked) in _SPANS else _USUAL
    now = clock.now()
    today = now.date()
    return selectors.margin(first=today - timedelta(days=span - 1), last=today, now=now)


@operator_page
def margin(request: OperatorRequest) -> HttpResponse:
    """Show the margin of the last days, by day, model and class."""
    shown = _margin(request)
    context = {
        "shown": shown,
        "spans": _SPANS,
        "span": (shown.last - shown.first).days + 1,
        "labels": [row.name[5:] for row in shown.days],
        "series": [
            ("Providers", [row.earned_nano + row.availability_nano for row in shown.days]),
            ("House nodes", [row.house_nano for row in shown.days]),
            ("Stripe and losses", [max(0, row.stripe_fees_nano + row.others_nano) for row in shown.days]),
            ("Left on days that gain", [max(0, row.margin_nano) for row in shown.days]),
        ],
        "tables": [("By day (UTC)", "Day", shown.days[::-1]), ("By model", "Model", shown.models),
                   ("By class of node", "Class", shown.classes)],
    }  # fmt: skip
    return render(request, "operators/margin.html", context)


@operator_page
def margin_csv(request: OperatorRequest) -> HttpResponse:
    """Answer the days as CSV, with full precision."""
    shown = _margin(request)
    header = ["day_utc", "requests", *(f"{name}_{settings.CURRENCY}" for name, _ in _COLUMNS)]
    text = csv_text(header=header, rows=(_cells(row) for row in shown.days))
    answer = HttpResponse(text, content_type="text/csv; charset=utf-8")
    answer["content-disposition"] = f'attachment; filename="margin-{shown.first}-{shown.last}.csv"'
    return answer


def _cells(row: Row) -> list[object]:
    return [row.name, row.requests, *(decimal_text(getattr(row, name)) for _, name in _COLUMNS)]


urlpatterns = [
    path("margin/", margin, name="margin"),
    path("margin.csv", margin_csv, name="margin-csv"),
]
