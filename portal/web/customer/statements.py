"""Customer pages: monthly statements."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path, reverse

from portal.billing.models import StatementKind
from portal.billing.selectors.statements import Party
from portal.core import clock
from portal.web import daily, statement_pages
from portal.web.access import OrganizationRequest, page
from portal.web.statement_pages import Shown


@page(side="customer")
def statements(request: OrganizationRequest) -> HttpResponse:
    """List the organization's months."""
    entries = statement_pages.listed(_party(request), now=clock.now())
    return render(request, "billing/statements.html", {"entries": entries, "by_day": reverse("customer:usage")})


@page(side="customer")
def statement(request: OrganizationRequest) -> HttpResponse:
    """Show one month: its usage, everything else that moved credit, and the proof that it adds up."""
    shown = _shown(request)
    return render(request, "billing/statement.html", {"shown": shown, "content": shown.content})


@page(side="customer")
def statement_csv(request: OrganizationRequest) -> HttpResponse:
    """Answer one month as CSV."""
    shown = _shown(request)
    return daily.csv_answer(statement_pages.as_csv(shown), name=f"statement-{shown.month}.csv")


@page(side="customer")
def statement_pdf(request: OrganizationRequest) -> HttpResponse:
    """Answer one month as PDF."""
    return statement_pages.as_pdf(_shown(request))


def _party(request: OrganizationRequest) -> Party:
    return Party(StatementKind.CUSTOMER, request.organization.public_id)


def _shown(request: OrganizationRequest) -> Shown:
    return statement_pages.find(_party(request), month=request.GET.get("month", ""), now=clock.now())


urlpatterns = [
    path("statements/", statements, name="statements"),
    path("statement/", statement, name="statement"),
    path("statement.csv", statement_csv, name="statement-csv"),
    path("statement.pdf", statement_pdf, name="statement-pdf"),
]
