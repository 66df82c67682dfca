"""Customer pages: one request explained, and the records of many days as a file."""

from functools import partial
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from portal.billing.selectors import records, spend
from portal.billing.selectors.booked import Bookings
from portal.core.money import decimal_text
from portal.metering.selectors import usage
from portal.web import records_export, statuses
from portal.web.access import OrganizationRequest, page
from portal.web.records_export import Columns


@page(side="customer")
def request_page(request: OrganizationRequest, request_id: UUID) -> HttpResponse:
    """Show what became of a request: its attempts, what was counted, what it cost and why."""
    record = records.for_customer(
        organization_id=request.organization.pk, request_id=request_id, currency=settings.CURRENCY
    )
    if record is None:
        raise Http404
    return render(
        request, "customer/request.html", {"record": record, "outcome": statuses.status_of(record["outcome"]).word}
    )


@page(side="customer")
def records_file(request: OrganizationRequest, kind: str) -> HttpResponseBase:
    """Answer the records of the days asked for as a file."""
    organization, booked = request.organization.pk, Bookings()

    return records_export.answer(
        request.GET,
        records=booked.of(partial(usage.each, organization_id=organization)),
        columns=_columns(organization, booked),
        kind=kind,
        name="requests",
    )


def _columns(organization_id: int, booked: Bookings) -> Columns:
    models, keys = spend.model_names(), spend.key_names(organization_id=organization_id)
    return {
        "request_id": lambda row: row.request_id,
        "attempt": lambda row: row.attempt,
        "client_request_id": lambda row: row.client_request_id,
        "opened_at": lambda row: row.opened_at,
        "first_token_at": lambda row: row.first_token_at,
        "closed_at": lambda row: row.closed_at,
        "endpoint": lambda row: f"/v1/{row.endpoint}",
        "stream": lambda row: row.is_stream,
        "model": lambda row: models.get(row.model_id, row.model_id),
        "key": lambda row: keys.get(row.api_key_id, row.api_key_id),
        "node_class": lambda row: row.node_class,
        "country": lambda row: row.country,
        "outcome": lambda row: row.outcome,
        "error_code": lambda row: row.error_code,
        "prompt_tokens": lambda row: row.prompt_tokens,
        "cached_tokens": lambda row: row.cached_tokens,
        "completion_tokens": lambda row: row.completion_tokens,
        "token_source": lambda row: row.token_source,
        "price": lambda row: row.price_version_id,
        f"held_{settings.CURRENCY}": lambda row: decimal_text(row.hold_nano),
        "booked_at": booked.at,
        f"cost_{settings.CURRENCY}": lambda row: decimal_text(row.charge_nano),
    }


urlpatterns = [
    path("requests/<uuid:request_id>/", request_page, name="request"),
    path("requests.csv", records_file, {"kind": "csv"}, name="requests-csv"),
    path("requests.json", records_file, {"kind": "json"}, name="requests-json"),
]
