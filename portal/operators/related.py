"""Operator pages: organizations that have something in common. Route `operators:related`."""

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import path
from django.views.decorators.http import require_POST

from portal.billing.selectors import related as selectors
from portal.billing.services import related
from portal.core import clock
from portal.operators.access import OperatorRequest, operator_page


@operator_page
def related_list(request: OperatorRequest) -> HttpResponse:
    """Show pairs and why, those that nobody has ruled on first."""
    return render(request, "operators/related.html", {"pairs": selectors.pairs()})


@require_POST
@operator_page
def rule(request: OperatorRequest, pair_id: int) -> HttpResponse:
    """Say that two are one party, or strangers, or let the facts speak."""
    row = related.rule(
        pair_id=pair_id,
        ruling=request.POST.get("ruling", ""),
        note=request.POST.get("note", ""),
        actor=request.actor,
        now=clock.now(),
    )
    told = "They never earn from each other." if row.is_related else "They may earn from each other."
    messages.success(request, f"{row.low.name} and {row.high.name}: {told}")
    return redirect("operators:related")


urlpatterns = [
    path("related/", related_list, name="related"),
    path("related/<int:pair_id>/rule/", rule, name="related-rule"),
]
