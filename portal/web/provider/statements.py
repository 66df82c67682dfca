"""Provider pages: monthly statements."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path, reverse

from portal.billing.models import StatementKind
from portal.billing.selectors.statements import Party
from portal.core import clock
from portal.web import daily, statement_pages
from portal.web.access import ProviderRequest, provider_page
from portal.web.statement_pages import Shown


@provider_page()
def statements(request: ProviderRequest) -> HttpResponse:
    """List the provider's months."""
    entries = statement_pages.listed(_party(request), now=clock.now())
    return render(request, "billing/statements.html", {"entries": entries, "by_day": reverse("provider:earnings")})


@provider_page()
def statement(request: ProviderRequest) -> HttpResponse:
    """Show one month: what each node earned, payouts and all else, and the proof that it adds up."""
    shown = _shown(request)
    return render(request, "billing/statement.html", {"shown": shown, "content": shown.content})


@provider_page()
def statement_csv(request: ProviderRequest) -> HttpResponse:
    """Answer one month as CSV."""
    shown = _shown(request)
    return daily.csv_answer(statement_pages.as_csv(shown), name=f"statement-{shown.month}.csv")


@provider_page()
def statement_pdf(request: ProviderRequest) -> HttpResponse:
    """Answer one month as PDF."""
    return statement_pages.as_pdf(_shown(request))


def _party(request: ProviderRequest) -> Party:
    return Party(StatementKind.PROVIDER, request.provider.public_id)


def _shown(request: ProviderRequest) -> Shown:
    return statement_pages.find(_party(request), month=request.GET.get("month", ""), now=clock.now())


urlpatterns = [
    path("statements/", statements, name="statements"),
    path("statement/", statement, name="statement"),
    path("statement.csv", statement_csv, name="statement-csv"),
    path("statement.pdf", statement_pdf, name="statement-pdf"),
]
