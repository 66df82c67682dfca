"""Provider pages: earnings by day, and how they come about. The main page's route is named `provider:earnings`."""

from dataclasses import dataclass

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.rules import rating
from portal.billing.rules.export import csv_text
from portal.billing.rules.rating import Terms
from portal.billing.selectors import (
    adjustments,
    availability,
    balances,
    earnings,
    price_versions,
    prices,
    provider_tiers,
    spend,
    transactions,
)
from portal.billing.selectors.earnings import Example
from portal.core import clock
from portal.core.money import decimal_text
from portal.web import daily, formats
from portal.web.access import ProviderRequest, provider_page
from portal.web.provider import statements

_GROUPS = {"model": "By model", "node": "By node"}


@dataclass(frozen=True, slots=True)
class Formula:
    """One real request, written out: what was counted, what it cost, what of it was earned."""

    request_id: str
    lines: list[tuple[str, str, str]]
    charge: str
    share_bps: int
    earned: str
    withheld: str


@provider_page()
def earnings_page(request: ProviderRequest) -> HttpResponse:
    """Show what the provider has, what it earned by day, and the formula with real numbers."""
    now = clock.now()
    view = daily.read(request.GET, groups=list(_GROUPS), now=now)
    provider = request.provider
    rows = earnings.earnings_by_day(provider_id=provider.pk, first=view.first, last=view.last, group=view.group)
    names = _names(request, view.group, daily.group_ids(rows))
    example = earnings.last_example(provider_id=provider.pk)
    context = {
        "balance": balances.provider_balance(provider=provider.public_id),
        "paid_nano": earnings.paid_out(provider=provider.public_id),
        "movements": transactions.provider_movements(provider=provider.public_id, limit=20),
        "share_bps": prices.share_at(provider_id=provider.pk, at=now),
        "ready_nano": availability.paid_total(provider=provider.public_id),
        "is_house": provider.kind == "house",
        **daily.context(rows, view, names, groups=_GROUPS, amount="Earned"),
        "charged": earnings.totals(provider_id=provider.pk, first=view.first, last=view.last),
        "maturing": earnings.maturing(provider=provider.public_id),
        "reserve": earnings.kept_back(provider=provider.public_id),
        "reserve_days": settings.PAYOUT_RESERVE_DAYS,
        "standing": provider_tiers.standing(provider, now=now),
        "adjustments": adjustments.adjustments_of(provider=provider),
        "formula": _formula(example) if example else None,
    }
    return render(request, "provider/earnings.html", context)


@provider_page()
def earnings_csv(request: ProviderRequest) -> HttpResponse:
    """Answer the same days as CSV, by day, node, model, price version and share, with full precision."""
    view = daily.read(request.GET, groups=list(_GROUPS), now=clock.now())
    provider = request.provider.pk
    rows = earnings.detail(provider_id=provider, first=view.first, last=view.last)
    models = spend.model_names({row.model_id for row in rows})
    nodes = earnings.node_names(provider_id=provider, ids={row.node_id for row in rows})
    versions = price_versions.labels({row.price_version_id for row in rows})
    text = csv_text(
        header=[
            "day_utc",
            "node",
            "model",
            "price",
            "share_bps",
            "requests",
            "prompt_tokens",
            "cached_tokens",
            "completion_tokens",
            f"charged_{settings.CURRENCY}",
            f"earned_{settings.CURRENCY}",
        ],
        rows=(
            (
                row.day,
                nodes.get(row.node_id, row.node_id),
                models.get(row.model_id, row.model_id),
                versions.get(row.price_version_id, ""),
                row.share_bps,
                row.requests,
                row.prompt_tokens,
                row.cached_tokens,
                row.completion_tokens,
                decimal_text(row.charge_nano),
                decimal_text(row.earned_nano),
            )
            for row in rows
        ),
    )
    return daily.csv_answer(text, name=f"earnings-{view.first}-{view.last}.csv")


def _names(request: ProviderRequest, group: str, ids: set[int]) -> dict[int, str]:
    if group == "node":
        return earnings.node_names(provider_id=request.provider.pk, ids=ids)
    return spend.model_names(ids)


def _formula(example: Example) -> Formula:
    record = example.record
    terms = Terms(
        example.prompt_nano_per_mtok,
        example.cached_nano_per_mtok,
        example.completion_nano_per_mtok,
        example.request_nano,
    )
    parts = rating.cost_lines(
        price=terms, prompt=record.prompt_tokens, cached=record.cached_tokens, completion=record.completion_tokens
    )
    return Formula(
        request_id=str(record.request_id),
        lines=[(part.label, formats.count(part.quantity), _unit(part)) for part in parts],
        charge=decimal_text(record.charge_nano),
        share_bps=record.share_bps,
        earned=decimal_text(example.earned_nano),
        withheld=example.withheld,
    )


def _unit(part: rating.CostLine) -> str:
    price = formats.money(part.unit_nano, currency=settings.CURRENCY, places=4)
    return price if part.label == "request" else f"{price} / 1M tokens"


urlpatterns = [
    path("earnings/", earnings_page, name="earnings"),
    path("earnings.csv", earnings_csv, name="earnings-csv"),
    *statements.urlpatterns,
]
