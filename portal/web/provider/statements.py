"""Provider pages: monthly statements."""

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.models import StatementKind
from portal.billing.selectors.statements import Party
from portal.core import clock
from portal.web import daily, statement_pages
from portal.web.access import ProviderRequest, provider_page


@provider_page()
def statements(request: ProviderRequest) -> HttpResponse:
    """List the provider's months."""
    return render(
        request,
        "provider/statements.html",
        {"entries": statement_pages.listed(_party(request), now=clock.now())},
    )


@provider_page()
def statement(request: ProviderRequest, month: str) -> HttpResponse:
    """Show one month: what each node earned, payouts and all else, and the proof that it adds up."""
    shown = statement_pages.find(_party(request), month=month, now=clock.now())
    return render(request, "provider/statement.html", {"shown": shown, "content": shown.content})


@provider_page()
def statement_csv(request: ProviderRequest, month: str) -> HttpResponse:
    """Answer one month as CSV."""
    shown = statement_pages.find(_party(request), month=month, now=clock.now())
    return daily.csv_answer(statement_pages.as_csv(shown), name=f"statement-{month}.csv")


def _party(request: ProviderRequest) -> Party:
    return Party(StatementKind.PROVIDER, request.provider.public_id)


urlpatterns = [
    path("statements/", statements, name="statements"),
    path("statements/<str:month>/", statement, name="statement"),
    path("statements/<str:month>.csv", statement_csv, name="statement-csv"),
]
