"""Customer pages: files with which anybody can compute a statement again, without this pool."""

from django.conf import settings
from django.http import HttpResponse
from django.urls import path

from portal.billing.models import StatementKind
from portal.billing.rules.statements import to_json
from portal.billing.selectors import price_exports
from portal.billing.selectors.statements import Party
from portal.core import clock
from portal.web import recount_answers, statement_pages
from portal.web.access import OrganizationRequest, page


@page(side="customer")
def prices_file(request: OrganizationRequest) -> HttpResponse:
    """Answer every price that the organization's usage can have been rated with."""
    found = price_exports.for_customer(
        organization_id=request.organization.pk, currency=settings.CURRENCY, now=clock.now()
    )
    return recount_answers.download(found, name="prices.json")


@page(side="customer")
def statement_file(request: OrganizationRequest) -> HttpResponse:
    """Answer one month's statement as the document that is hashed."""
    party = Party(StatementKind.CUSTOMER, request.organization.public_id)
    shown = statement_pages.find(party, month=request.GET.get("month", ""), now=clock.now())
    return recount_answers.download(to_json(shown.content), name=f"statement-{shown.month}.json")


urlpatterns = [
    path("prices.json", prices_file, name="prices-json"),
    path("statement.json", statement_file, name="statement-json"),
]
