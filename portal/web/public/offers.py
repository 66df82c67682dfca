"""Public pages: the models that may be called, what each costs, what it will cost and what it did."""

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import path
from django.views.decorators.http import require_safe

from portal.billing.selectors import offers as selectors
from portal.billing.selectors import prices
from portal.core import clock
from portal.web.access import public_page


@public_page
@require_safe
def models(request: HttpRequest) -> HttpResponse:
    """List the offered models with their prices."""
    return render(request, "public/models.html", {"rows": selectors.offers(now=clock.now())})


@public_page
@require_safe
def model(request: HttpRequest, model_id: str) -> HttpResponse:
    """Show one model: its price now, from when another holds, and every price it had."""
    now = clock.now()
    offer = selectors.offer(model_id=model_id, now=now)
    if offer is None:
        raise Http404
    context = {
        "offer": offer,
        "history": prices.public_history(model_id=offer.model.pk),
        "now": now,
        "gateway_url": settings.GATEWAY_URL,
        "notice_days": settings.PRICE_NOTICE_DAYS,
    }
    return render(request, "public/model.html", context)


urlpatterns = [
    path("models/", models, name="models"),
    path("models/<path:model_id>/", model, name="model"),
]
