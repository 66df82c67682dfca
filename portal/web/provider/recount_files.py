"""Provider pages: files with which anybody can compute earnings and payouts again, without this pool."""

from django.conf import settings
from django.http import Http404, HttpResponse
from django.urls import path

from portal.billing.models import StatementKind
from portal.billing.rules.statements import to_json
from portal.billing.selectors import price_exports
from portal.billing.selectors.statements import Party
from portal.core import clock
from portal.payouts.models import Payout
from portal.payouts.selectors import basis
from portal.web import recount_answers, statement_pages
from portal.web.access import ProviderRequest, provider_page


@provider_page()
def prices_file(request: ProviderRequest) -> HttpResponse:
    """Answer every price that the provider's usage was rated with."""
    found = price_exports.for_provider(provider_id=request.provider.pk, currency=settings.CURRENCY, now=clock.now())
    return recount_answers.download(found, name="prices.json")


@provider_page()
def statement_file(request: ProviderRequest) -> HttpResponse:
    """Answer one month's statement as the document that is hashed."""
    party = Party(StatementKind.PROVIDER, request.provider.public_id)
    shown = statement_pages.find(party, month=request.GET.get("month", ""), now=clock.now())
    return recount_answers.download(to_json(shown.content), name=f"statement-{shown.month}.json")


@provider_page()
def payout_file(request: ProviderRequest, payout_id: str) -> HttpResponse:
    """Answer what one payout is made of, attempt by attempt."""
    payout = Payout.objects.select_related("provider").filter(provider=request.provider, public_id=payout_id).first()
    if payout is None:
        raise Http404
    return recount_answers.download(basis.document(payout=payout), name=f"{payout.public_id}.json")


urlpatterns = [
    path("prices.json", prices_file, name="prices-json"),
    path("statement.json", statement_file, name="statement-json"),
    path("payout/<str:payout_id>.json", payout_file, name="payout-json"),
]
