"""Operator pages: runs of payouts, each with its payouts, whom it skipped and why, its check and its approval."""

from django.conf import settings
from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.core import clock
from portal.operators.access import OperatorRequest, operator_page
from portal.payouts.rules import findings, states
from portal.payouts.selectors import runs as selectors
from portal.payouts.services import drafts, run_approvals, run_checks


@operator_page
def runs_page(request: OperatorRequest) -> HttpResponse:
    """List runs, newest first."""
    return render(request, "operators/payout_runs.html", {"runs": selectors.runs()})


@require_POST
@operator_page
def draft(request: OperatorRequest) -> HttpResponse:
    """Reserve a payout for everyone who can be paid; lead to the run's page."""
    drafted = drafts.draft_payouts(now=clock.now(), actor=request.actor)
    if drafted.run is None:
        messages.info(request, "Nothing is owed to anybody: there is nothing to draft.")
        return redirect("operators:payouts")
    return redirect("operators:payout-run", run=drafted.run.public_id)


@operator_page
def run_page(request: OperatorRequest, run: str) -> HttpResponse:
    """Show one run: every payout, everyone skipped with the reason, totals, the last check, and the approval."""
    row, now = selectors.run(run), clock.now()
    current = selectors.current_hash(run=row)
    totals = selectors.totals(run=row)
    context = {
        "run": row,
        "payouts": [(one, states.meaning(one.state, one.rail)) for one in selectors.payouts_of(run=row)],
        "skips": selectors.skips_of(run=row),
        "totals": totals,
        "amount_minor": sum(one.amount_minor for one in totals),
        "fee_minor": sum(one.stripe_fee_minor for one in totals),
        "borne_minor": sum(one.fee_minor for one in totals),
        "findings": findings.from_json(row.findings),
        "hash": current,
        "objection": selectors.objection(run=row, now=now),
        "approvers": settings.PAYOUT_APPROVERS,
        "approved_by": selectors.approvers_of(run=row) if current else [],
    }
    return render(request, "operators/payout_run.html", context)


@require_POST
@operator_page
def check(request: OperatorRequest, run: str) -> HttpResponse:
    """Check the run as it is now."""
    run_checks.check(run_id=run, now=clock.now())
    return redirect("operators:payout-run", run=run)


@require_POST
@operator_page
def approve(request: OperatorRequest, run: str) -> HttpResponse:
    """Approve exactly what the page showed: its hash comes with the form."""
    done = run_approvals.approve(
        run_id=run,
        seen_hash=request.POST.get("hash", ""),
        approver=request.user,
        actor=request.actor,
        now=clock.now(),
    )
    if done.waiting:
        messages.success(request, f"Noted. {done.waiting} payouts wait for another operator.")
    else:
        messages.success(request, f"{len(done.approved)} payouts are approved and sent within minutes.")
    return redirect("operators:payout-run", run=run)


urlpatterns = [
    path("payout-runs/", runs_page, name="payout-runs"),
    path("payout-runs/draft/", draft, name="payouts-draft"),
    path("payout-runs/<str:run>/", run_page, name="payout-run"),
    path("payout-runs/<str:run>/check/", check, name="payout-run-check"),
    path("payout-runs/<str:run>/approve/", approve, name="payout-run-approve"),
]
