"""Operator pages: when the ledger was checked and what differed. Main route `operators:ledger-checks`."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.billing.models import LedgerCheck, LedgerDifference
from portal.core import clock
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.services import ledger_checks as services

_SHOWN = 200


@operator_page
def ledger_checks(request: OperatorRequest) -> HttpResponse:
    """Show the last checks, what differs now, and what differed before."""
    open_ = LedgerDifference.objects.filter(resolved_at=None).order_by("first_seen_at", "pk")
    gone = LedgerDifference.objects.exclude(resolved_at=None).order_by("-resolved_at", "-pk")
    context = {
        "checks": LedgerCheck.objects.order_by("-checked_at", "-pk")[:14],
        "open": open_[:_SHOWN],
        "open_count": open_.count(),
        "gone": gone[:50],
    }
    return render(request, "operators/ledger_checks.html", context)


@require_POST
@operator_page
def check_now(request: OperatorRequest) -> HttpResponse:
    """Check the ledger now."""
    checked = services.run(now=clock.now())
    count = len(checked.differences)
    if count:
        messages.error(request, f"{count} differences.")
    else:
        messages.success(request, "Everything that must be equal is.")
    return redirect("operators:ledger-checks")


urlpatterns = [
    path("ledger/checks/", ledger_checks, name="ledger-checks"),
    path("ledger/checks/run/", check_now, name="ledger-check-now"),
]
