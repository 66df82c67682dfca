"""The published books: what was charged each day and who got it. Routes `public:books` and `public:books-json`."""

from datetime import date

from django.conf import settings
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.urls import path

from portal.billing.models import BooksDay
from portal.billing.selectors import books as selectors
from portal.core.errors import InvalidValue
from portal.core.money import nano_from_text
from portal.web.access import public_page

_DAYS = 62
_AMOUNTS = ("charged", "provider_earnings", "platform_fee", "refunds", "write_offs", "difference")


@public_page
def books(request: HttpRequest) -> HttpResponse:
    """Show the frozen days, newest first."""
    days = _days(request)
    rows = [(row, {name: nano_from_text(str(row.content[name])) for name in _AMOUNTS}) for row in days]
    context = {"rows": rows, "older": f"?before={days[-1]}" if len(days) == _DAYS else "", "is_public": _is_public()}
    return render(request, "public/books.html", context)


@public_page
def books_json(request: HttpRequest) -> JsonResponse:
    """Answer the frozen days as JSON, each with its digest and the one before it."""
    days = [{**row.content, "sha256": row.sha256, "previous_sha256": row.previous_sha256} for row in _days(request)]
    return JsonResponse({"pool": settings.POOL_NAME, "days": days})


def _days(request: HttpRequest) -> list[BooksDay]:
    if not (_is_public() or getattr(request.user, "is_operator", False)):
        raise Http404("the books are not published here")
    text = request.GET.get("before", "")
    try:
        before = date.fromisoformat(text) if text else None
    except ValueError as error:
        raise InvalidValue("before must be a day like 2026-11-30", param="before") from error
    return list(selectors.frozen(limit=_DAYS, before=before))


def _is_public() -> bool:
    return bool(settings.PUBLISH_BOOKS == "on")


urlpatterns = [
    path("books/", books, name="books"),
    path("books.json", books_json, name="books-json"),
]
