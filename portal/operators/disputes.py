"""Operator pages: disputes and early fraud warnings. The list's route is named `operators:disputes`."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.billing.rules import disputes as rules
from portal.billing.selectors import disputes as selectors
from portal.billing.selectors import refunds as refund_selectors
from portal.billing.services import dispute_evidence, disputes, fraud_warnings
from portal.core import clock
from portal.core.errors import InvalidValue
from portal.integrations.stripe_errors import PaymentError
from portal.operators.access import OperatorRequest, operator_page


@operator_page
def dispute_list(request: OperatorRequest) -> HttpResponse:
    """Show disputes, those whose evidence is due first, and warnings, the undecided first."""
    context = {
        "disputes": [(one, rules.MEANINGS.get(one.status, "")) for one in selectors.disputes()],
        "warnings": selectors.warnings(),
    }
    return render(request, "operators/disputes.html", context)


@operator_page
def dispute(request: OperatorRequest, dispute: str) -> HttpResponse:
    """Show one dispute with what it moved and the evidence as it would be sent."""
    found = selectors.dispute(stripe_dispute=dispute)
    context = {
        "dispute": found,
        "meaning": rules.MEANINGS.get(found.status, ""),
        "debt_nano": disputes.debt_of(found),
        "movements": found.movements.order_by("moved_at", "pk"),
        "evidence": dispute_evidence.preview(stripe_dispute=dispute),
        "card": refund_selectors.charge_of(topup=found.topup),
        "may_submit": found.status in rules.ANSWERABLE and found.evidence_sent_at is None,
    }
    return render(request, "operators/dispute.html", context)


@require_POST
@operator_page
def submit(request: OperatorRequest, dispute: str) -> HttpResponse:
    """Send the evidence to the bank."""
    note = request.POST.get("note", "").strip()[:2000]
    try:
        dispute_evidence.submit(stripe_dispute=dispute, note=note, actor=request.actor, now=clock.now())
    except PaymentError as error:
        messages.error(request, f"It is not known to have arrived: {error.sentences} Press the button once more.")
    else:
        messages.success(request, "The evidence is with the bank; it decides within some weeks.")
    return redirect("operators:dispute", dispute)


@require_POST
@operator_page
def read(request: OperatorRequest, dispute: str) -> HttpResponse:
    """Ask Stripe where the dispute stands."""
    try:
        disputes.read(dispute=selectors.dispute(stripe_dispute=dispute).stripe_dispute, now=clock.now())
    except PaymentError as error:
        messages.warning(request, f"Stripe could not be asked: {error.message}")
    return redirect("operators:dispute", dispute)


@require_POST
@operator_page
def decide(request: OperatorRequest, warning: str) -> HttpResponse:
    """Refund what is unused of the warned payment, or dismiss the warning; both let the organization spend again."""
    action, note = request.POST.get("action", ""), request.POST.get("note", "").strip()
    if action == "refund":
        refund = fraud_warnings.refund_unused(stripe_warning=warning, note=note, actor=request.actor, now=clock.now())
        told = "The unused part goes back to the card." if refund else "Nothing is left to give back."
        messages.success(request, f"{told} The organization may spend what else it has.")
    elif action == "dismiss":
        fraud_warnings.dismiss(stripe_warning=warning, note=note, actor=request.actor, now=clock.now())
        messages.success(request, "Dismissed; the organization may spend again.")
    else:
        raise InvalidValue("use refund or dismiss", param="action")
    return redirect("operators:disputes")


urlpatterns = [
    path("disputes/", dispute_list, name="disputes"),
    path("disputes/<str:dispute>/", dispute, name="dispute"),
    path("disputes/<str:dispute>/submit/", submit, name="dispute-submit"),
    path("disputes/<str:dispute>/read/", read, name="dispute-read"),
    path("fraud-warnings/<str:warning>/", decide, name="fraud-warning-decide"),
]
