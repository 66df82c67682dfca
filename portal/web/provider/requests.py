"""Provider pages: what the provider's nodes served, one attempt explained, and the records of many days as a file."""

from functools import partial
from uuid import UUID

from django.conf import settings
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.urls import path

from portal.billing.selectors import earnings, records, spend
from portal.billing.selectors.booked import Bookings
from portal.core.money import decimal_text
from portal.metering.selectors import usage
from portal.web import records_export
from portal.web.access import ProviderRequest, provider_page
from portal.web.records_export import Columns

_SHOWN = 50


@provider_page()
def requests_page(request: ProviderRequest) -> HttpResponse:
    """Show the newest attempts at the provider's nodes."""
    rows = list(usage.of_provider(provider_id=request.provider.pk, limit=_SHOWN))
    models = spend.model_names({row.model_id for row in rows})
    nodes = earnings.node_names(provider_id=request.provider.pk, ids={row.node_id for row in rows})
    context = {"rows": [(row, models.get(row.model_id, ""), nodes.get(row.node_id, "")) for row in rows]}
    return render(request, "provider/requests.html", context)


@provider_page()
def request_page(request: ProviderRequest, request_id: UUID) -> HttpResponse:
    """Show what became of the provider's attempts at one request, and what they earned and why."""
    record = records.for_provider(provider_id=request.provider.pk, request_id=request_id, currency=settings.CURRENCY)
    if record is None:
        raise Http404
    return render(request, "provider/request.html", {"record": record})


@provider_page()
def records_file(request: ProviderRequest, kind: str) -> HttpResponseBase:
    """Answer the records of the days asked for as a file; it names no customer."""
    provider, booked = request.provider.pk, Bookings()

    return records_export.answer(
        request.GET,
        records=booked.of(partial(usage.each, provider_id=provider)),
        columns=_columns(provider, booked),
        kind=kind,
        name="served",
    )


def _columns(provider_id: int, booked: Bookings) -> Columns:
    models, nodes = spend.model_names(), earnings.node_names(provider_id=provider_id)
    ids = earnings.node_ids(provider_id=provider_id)
    return {
        "request_id": lambda row: row.request_id,
        "attempt": lambda row: row.attempt,
        "opened_at": lambda row: row.opened_at,
        "first_token_at": lambda row: row.first_token_at,
        "closed_at": lambda row: row.closed_at,
        "endpoint": lambda row: f"/v1/{row.endpoint}",
        "stream": lambda row: row.is_stream,
        "node": lambda row: nodes.get(row.node_id, row.node_id),
        "node_id": lambda row: ids.get(row.node_id, ""),
        "model": lambda row: models.get(row.model_id, row.model_id),
        "outcome": lambda row: row.outcome,
        "error_code": lambda row: row.error_code,
        "prompt_tokens": lambda row: row.prompt_tokens,
        "cached_tokens": lambda row: row.cached_tokens,
        "completion_tokens": lambda row: row.completion_tokens,
        "claimed_prompt_tokens": lambda row: row.claimed_prompt_tokens,
        "claimed_completion_tokens": lambda row: row.claimed_completion_tokens,
        "counted_prompt_tokens": lambda row: row.counted_prompt_tokens,
        "counted_completion_tokens": lambda row: row.counted_completion_tokens,
        "token_source": lambda row: row.token_source,
        "price": lambda row: row.price_version_id,
        f"held_{settings.CURRENCY}": lambda row: decimal_text(row.hold_nano),
        "booked_at": booked.at,
        f"charged_{settings.CURRENCY}": lambda row: decimal_text(row.charge_nano),
        "share_bps": lambda row: row.share_bps,
        f"share_{settings.CURRENCY}": lambda row: decimal_text(row.provider_nano),
        f"earned_{settings.CURRENCY}": lambda row: decimal_text(booked.earned_nano(row)),
        "withheld": booked.withheld,
    }


urlpatterns = [
    path("requests/", requests_page, name="requests"),
    path("requests/<uuid:request_id>/", request_page, name="request"),
    path("requests.csv", records_file, {"kind": "csv"}, name="requests-csv"),
    path("requests.json", records_file, {"kind": "json"}, name="requests-json"),
]
