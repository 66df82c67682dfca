"""Customer pages: usage by day, and the requests behind it. The main page's route is named `customer:usage`."""

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.rules.export import csv_text
from portal.billing.selectors import price_versions, spend
from portal.core import clock
from portal.core.money import decimal_text
from portal.web import daily
from portal.web.access import OrganizationRequest, page
from portal.web.customer import statements

_GROUPS = {"model": "By model", "key": "By key"}


@page(side="customer")
def usage(request: OrganizationRequest) -> HttpResponse:
    """Show what the organization used and was charged, by day and model or key."""
    view = daily.read(request.GET, groups=list(_GROUPS), now=clock.now())
    rows = spend.usage_by_day(
        organization_id=request.organization.pk, first=view.first, last=view.last, group=view.group
    )
    names = _names(request, view.group, daily.group_ids(rows))
    latest = list(spend.latest_requests(organization_id=request.organization.pk))
    models = spend.model_names({record.model_id for record in latest})
    labels = price_versions.labels({record.price_version_id for record in latest})
    context = {
        **daily.context(rows, view, names, groups=_GROUPS, amount="Charged"),
        "requests": [
            (record, models.get(record.model_id, ""), labels.get(record.price_version_id, "")) for record in latest
        ],
        "priced": spend.by_price(organization_id=request.organization.pk, first=view.first, last=view.last),
    }
    return render(request, "customer/usage.html", context)


@page(side="customer")
def usage_csv(request: OrganizationRequest) -> HttpResponse:
    """Answer the same days as CSV, by day, model, key and price version, with full precision."""
    view = daily.read(request.GET, groups=list(_GROUPS), now=clock.now())
    organization = request.organization.pk
    rows = spend.detail(organization_id=organization, first=view.first, last=view.last)
    models = spend.model_names({row.model_id for row in rows})
    keys = spend.key_names(organization_id=organization, ids={row.api_key_id for row in rows})
    prices = price_versions.labels({row.price_version_id for row in rows})
    text = csv_text(
        header=[
            "day_utc",
            "model",
            "key",
            "price",
            "requests",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
            f"cost_{settings.CURRENCY}",
        ],
        rows=(
            (
                row.day,
                models.get(row.model_id, row.model_id),
                keys.get(row.api_key_id, row.api_key_id),
                prices.get(row.price_version_id, ""),
                row.requests,
                row.prompt_tokens,
                row.cached_tokens,
                row.completion_tokens,
                decimal_text(row.charge_nano),
            )
            for row in rows
        ),
    )
    return daily.csv_answer(text, name=f"usage-{view.first}-{view.last}.csv")


def _names(request: OrganizationRequest, group: str, ids: set[int]) -> dict[int, str]:
    if group == "key":
        return spend.key_names(organization_id=request.organization.pk, ids=ids)
    return spend.model_names(ids)


urlpatterns = [
    path("usage/", usage, name="usage"),
    path("usage.csv", usage_csv, name="usage-csv"),
    *statements.urlpatterns,
]
