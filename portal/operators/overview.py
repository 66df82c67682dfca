"""Operator overview: capacity, money, what waits for an operator. Route `operators:overview`."""

from datetime import timedelta

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.accounts.models import Organization
from portal.billing.models import LedgerCheck, LedgerDifference, StripeMovement
from portal.billing.selectors import bank_transfers, disputes, pool_totals, refunds
from portal.core import clock
from portal.metering.models import Reader
from portal.metering.selectors.queued import queued_count
from portal.nodes.selectors import nodes
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.selectors import credit_notes, payouts
from portal.providers.models import Provider, ProviderState

_DAYS = 30


@operator_page
def overview(request: OperatorRequest) -> HttpResponse:
    """Show how the pool stands and what waits for an operator."""
    today = clock.now().date()
    states = nodes.states_count()
    sums = pool_totals.pool_days(first=today - timedelta(days=_DAYS - 1), last=today)
    context = {
        "nodes_serving": states.get("serving", 0),
        "nodes_all": sum(number for state, number in states.items() if state != "retired"),
        "states": sorted(states.items()),
        "liabilities": pool_totals.liabilities(),
        "charge_nano": sum(day.charge_nano for day in sums),
        "earned_nano": sum(day.earned_nano for day in sums),
        "margin_nano": sum(day.charge_nano - day.earned_nano for day in sums),
        "labels": [f"{today - timedelta(days=_DAYS - 1 - offset):%m-%d}" for offset in range(_DAYS)],
        "series": [
            ("Providers", [day.earned_nano for day in sums]),
            ("Pool", [day.charge_nano - day.earned_nano for day in sums]),
        ],
        "providers_waiting": Provider.objects.filter(state=ProviderState.SUBMITTED).count(),
        "payouts_open": payouts.open_payouts().count(),
        "disputes_waiting": disputes.to_answer().count(),
        "evidence_due_at": disputes.to_answer().values_list("evidence_due_at", flat=True).first(),
        "warnings_waiting": disputes.undecided().count(),
        "refunds_waiting": refunds.waiting().count(),
        "transfers_waiting": bank_transfers.waiting().count(),
        "usage_waiting": queued_count(reader=Reader.BILLING),
        "organizations": Organization.objects.count(),
        "differences": LedgerDifference.objects.filter(resolved_at=None).count(),
        "last_check": LedgerCheck.objects.order_by("-checked_at", "-pk").first(),
        "unmatched": StripeMovement.objects.filter(source_id="").count(),
        "tax_waiting": credit_notes.to_confirm(limit=_DAYS).count(),
    }
    return render(request, "operators/overview.html", context)


urlpatterns = [path("", overview, name="overview")]
