"""The three endpoints: each with its own secret. A duplicate is answered like the first."""

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from portal.core import audience, clock
from portal.core.errors import DomainError
from portal.integrations.stripe_errors import SignatureInvalid
from portal.webhooks.models import EventSource
from portal.webhooks.services import inbox

_STATUSES: dict[type[DomainError], int] = {inbox.EventTooLarge: 413}
_SIGNED = audience.machine("stripe signature")


@audience.declare(_SIGNED)
@csrf_exempt
@require_POST
def platform(request: HttpRequest) -> HttpResponse:
    """Take the platform's own events."""
    return _receive(request, EventSource.PLATFORM)


@audience.declare(_SIGNED)
@csrf_exempt
@require_POST
def connect(request: HttpRequest) -> HttpResponse:
    """Take events of connected accounts."""
    return _receive(request, EventSource.CONNECT)


@audience.declare(_SIGNED)
@csrf_exempt
@require_POST
def events(request: HttpRequest) -> HttpResponse:
    """Take v2 thin events."""
    return _receive(request, EventSource.EVENTS)


def _receive(request: HttpRequest, source: EventSource) -> HttpResponse:
    signature = request.headers.get("stripe-signature", "")
    try:
        inbox.receive(source=source, body=_body(request), signature=signature, now=clock.now())
    except (SignatureInvalid, inbox.EventTooLarge, inbox.WrongEndpoint, inbox.WrongMode) as error:
        return _refused(error)
    return JsonResponse({"received": True})


def _body(request: HttpRequest) -> bytes:
    """Return the raw body; one that says it is too large is not read."""
    length = request.headers.get("content-length", "")
    if length.isdigit() and int(length) > inbox.LARGEST_BYTES:
        raise inbox.EventTooLarge(f"an event has at most {inbox.LARGEST_BYTES} bytes")
    return request.body


def _refused(error: DomainError) -> HttpResponse:
    body = {"error": {"message": error.message, "type": "webhook_error", "param": error.param, "code": error.code}}
    return JsonResponse(body, status=_STATUSES.get(type(error), 400))
