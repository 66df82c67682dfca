"""Maps every refusal of the machine routes to one shape: `{"error": {"message", "type", "param", "code", "fix"}}`."""

import logging
from collections.abc import Mapping

from django.core.exceptions import PermissionDenied
from django.http import Http404
from poolhouse_common import failures
from rest_framework import exceptions
from rest_framework.response import Response

from portal.core.errors import Conflict, DomainError, Forbidden, InvalidValue, NotFound

log = logging.getLogger(__name__)

_STATUS_BY_CODE = {
    "enrolment_token_invalid": 401,
    "enrolment_token_expired": 401,
    "signature_invalid": 401,
    "nonce_invalid": 401,
    "session_expired": 401,
    "session_superseded": 409,
    "node_suspended": 403,
    "node_cloned": 403,
    "node_retired": 403,
    "https_required": 403,
    "invalid_json": 400,
    "request_too_large": 413,
}
_STATUS_BY_KIND: tuple[tuple[type[DomainError], int], ...] = (
    (NotFound, 404),
    (Forbidden, 403),
    (Conflict, 409),
    (InvalidValue, 400),
)
_FRAMEWORK_CODES = {
    405: "method_not_allowed",
    406: "not_acceptable",
    415: "unsupported_media_type",
    429: "rate_limit_exceeded",
}
_TYPES = {
    401: "authentication_error",
    403: "permission_error",
    409: "conflict_error",
    429: "rate_limit_error",
    500: "server_error",
}


class InvalidJson(DomainError):
    """The body is not JSON that can be used."""

    code = "invalid_json"


class RequestTooLarge(DomainError):
    """The body is larger than the route takes."""

    code = "request_too_large"


def handle(error: Exception, context: Mapping[str, object]) -> Response:
    """Answer any error that a machine route raised; what is not expected is logged and told without detail."""
    if isinstance(error, DomainError):
        return answer(status_of(error), error.code, error.message, param=error.param, fix=error.fix)
    if isinstance(error, exceptions.ValidationError):
        param, message = _first(error.detail)
        return answer(400, "invalid_value", f"{param}: {message}" if param else message, param=param or None)
    if isinstance(error, Http404 | exceptions.NotFound):
        return answer(404, "not_found", "there is nothing at this address")
    if isinstance(error, PermissionDenied):
        return answer(403, "forbidden", "this is not allowed")
    if isinstance(error, exceptions.APIException):
        return _framework_answer(error)
    log.error("api.failed", extra={"view": type(context.get("view")).__name__}, exc_info=error)
    return answer(500, "internal_error", "the pool failed to answer")


def status_of(error: DomainError) -> int:
    """Return the HTTP status of a refusal."""
    by_kind = next((status for kind, status in _STATUS_BY_KIND if isinstance(error, kind)), 400)
    return _STATUS_BY_CODE.get(error.code, by_kind)


def answer(status: int, code: str, message: str, *, param: str | None = None, fix: str | None = None) -> Response:
    """Return the error's response; the fix comes from the failure catalogue where none is given."""
    known = failures.find(code)
    return Response(
        {
            "error": {
                "message": message,
                "type": _TYPES.get(status, "invalid_request_error"),
                "param": param,
                "code": code,
                "fix": fix or (known.fix if known else ""),
            }
        },
        status=status,
    )


def _framework_answer(error: exceptions.APIException) -> Response:
    codes = {
        405: "method_not_allowed",
        406: "not_acceptable",
        415: "unsupported_media_type",
        429: "rate_limit_exceeded",
    }
    code = "invalid_json" if isinstance(error, exceptions.ParseError) else codes.get(error.status_code, "refused")
    return answer(error.status_code, code, str(error.detail)[:400])


def _first(detail: object, path: str = "") -> tuple[str, str]:
    """Return the first field that is wrong, as a dotted path, and what is wrong with it."""
    if isinstance(detail, dict) and detail:
        name, inner = next(iter(detail.items()))
        if name == "non_field_errors":
            return _first(inner, path)
        return _first(inner, f"{path}.{name}" if path else str(name))
    if isinstance(detail, list) and detail:
        for index, inner in enumerate(detail):
            if isinstance(inner, dict) and inner:
                return _first(inner, f"{path}.{index}")
        return path, str(detail[0])
    return path, str(detail)
