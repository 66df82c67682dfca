"""Customer pages: monthly statements."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.models import StatementKind
from portal.billing.selectors.statements import Party
from portal.core import clock
from portal.web import daily, statement_pages
from portal.web.access import OrganizationRequest, page


@page(side="customer")
def statements(request: OrganizationRequest) -> HttpResponse:
    """List the organization's months."""
    return render(
        request,
        "customer/statements.html",
        {"entries": statement_pages.listed(_party(request), now=clock.now())},
    )


@page(side="customer")
def statement(request: OrganizationRequest, month: str) -> HttpResponse:
    """Show one month: its usage, everything else that moved credit, and the proof that it adds up."""
    shown = statement_pages.find(_party(request), month=month, now=clock.now())
    return render(request, "customer/statement.html", {"shown": shown, "content": shown.content})


@page(side="customer")
def statement_csv(request: OrganizationRequest, month: str) -> HttpResponse:
    """Answer one month as CSV."""
    shown = statement_pages.find(_party(request), month=month, now=clock.now())
    return daily.csv_answer(statement_pages.as_csv(shown), name=f"statement-{month}.csv")


def _party(request: OrganizationRequest) -> Party:
    return Party(StatementKind.CUSTOMER, request.organization.public_id)


urlpatterns = [
    path("statements/", statements, name="statements"),
    path("statements/<str:month>/", statement, name="statement"),
    path("statements/<str:month>.csv", statement_csv, name="statement-csv"),
]
