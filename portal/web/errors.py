"""Maps a domain's refusal to a page, once for all HTML routes; the machine routes map their own."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from portal.core.errors import Conflict, DomainError, Forbidden, NotFound


class DomainErrors:
    """Middleware: a DomainError that a view lets through becomes a page with its code, cause and fix."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Pass the request on."""
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        """Answer a DomainError; leave all others to Django."""
        if not isinstance(error, DomainError):
            return None
        if isinstance(error, NotFound):
            return render(request, "404.html", status=404)
        return render(request, "problem.html", {"error": error}, status=status_of(error))


def status_of(error: DomainError) -> int:
    """Return the HTTP status of a refusal."""
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Forbidden):
        return 403
    return 409 if isinstance(error, Conflict) else 400
