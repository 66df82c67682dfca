"""Customer overview: credit and its runway, spend, models, keys, the first request. Route `customer:overview`."""

from datetime import date, datetime

from django.conf import settings
from django.http import HttpResponse, QueryDict
from django.shortcuts import render
from django.urls import path

from portal.accounts.selectors import keys
from portal.billing.selectors import balances, spend
from portal.billing.selectors.spend import Usage
from portal.core import clock
from portal.web import daily
from portal.web.access import OrganizationRequest, page
from portal.web.customer.key_view import state_of
from portal.web.customer.snippets import curl_example

_RUNWAY_DAYS = 7


@page(side="customer")
def overview(request: OrganizationRequest) -> HttpResponse:
    """Show where the organization stands as a customer."""
    now = clock.now()
    organization = request.organization
    view = daily.read(QueryDict(), groups=["model"], now=now)
    rows = spend.usage_by_day(organization_id=organization.pk, first=view.first, last=view.last, group="model")
    names = spend.model_names(daily.group_ids(rows))
    balance = balances.customer_balance(organization=organization.public_id)
    context = {
        "balance": balance,
        "runway": _runway(rows, balance.total_nano, now),
        "spent_nano": spend.spent(organization_id=organization.pk, first=now.date().replace(day=1), last=now.date()),
        "total": daily.total(rows),
        "tokens_total": sum(row.tokens for row in rows),
        "labels": daily.labels(view),
        "series": daily.series(rows, view, names),
        "models": daily.by_group(rows, names)[:5],
        "live_keys": _live_keys(request, now),
        "example": curl_example(),
        "gateway_url": settings.GATEWAY_URL,
    }
    return render(request, "customer/overview.html", context)


def _live_keys(request: OrganizationRequest, now: datetime) -> int:
    return sum(state_of(key, now) == "active" for key in keys.list_keys(organization=request.organization))


def _runway(rows: list[Usage], balance_nano: int, now: datetime) -> str:
    """Say how long the credit lasts at the pace of the last seven whole days."""
    recent = sum(row.amount_nano for row in rows if row.day is not None and _is_recent(row.day, now.date()))
    if recent <= 0 or balance_nano <= 0:
        return ""
    days = balance_nano * _RUNWAY_DAYS // recent
    return f"about {days} days at last week's pace" if days else "less than a day at last week's pace"


def _is_recent(day: date, today: date) -> bool:
    return 1 <= (today - day).days <= _RUNWAY_DAYS


urlpatterns = [path("", overview, name="overview")]
