"""Operator overview. Route `operators:overview`."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.operators.access import OperatorRequest, operator_page


@operator_page
def overview(request: OperatorRequest) -> HttpResponse:
    """Show how the pool stands and what waits for an operator."""
    return render(request, "operators/overview.html")


urlpatterns = [path("", overview, name="overview")]
