"""Errors as `/v1/messages` puts them: Anthropic's types and statuses, with our code and our words."""

from typing import Any, Final
from uuid import UUID

import orjson

from portal.gateway.errors import ApiError

_TYPES: Final = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    431: "request_too_large",
    504: "timeout_error",
}
_OVERLOADED: Final = (529, "overloaded_error")
# A chat's names for what has another name here.
_NAMES: Final = (
    (".function.parameters", ".input_schema"),
    (".function.", "."),
    ("response_format.json_schema", "output_config.format"),
)


class MessagesWording:
    """Errors of one request."""

    __slots__ = ("_request_id",)

    def __init__(self, request_id: UUID) -> None:
        self._request_id = request_id

    def error(self, error: ApiError) -> bytes:
        """Return the event that ends a begun stream."""
        return event("error", self.refusal(error)[1])

    def refusal(self, error: ApiError) -> tuple[int, dict[str, Any]]:
        """Return the status and the error object."""
        status, kind = _status(error)
        fields: dict[str, Any] = {"type": kind, "message": _renamed(error.message), "code": error.code}
        if error.param is not None:
            fields["param"] = _renamed(error.param)
        return status, {"type": "error", "error": fields, "request_id": str(self._request_id)}


def event(name: str, value: dict[str, Any]) -> bytes:
    """Return a named event."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), orjson.dumps(value))


def _status(error: ApiError) -> tuple[int, str]:
    if error.code == "no_capacity":
        return _OVERLOADED
    known = _TYPES.get(error.status)
    if known is None:
        known = "api_error" if error.status >= 500 else "invalid_request_error"  # noqa: PLR2004  an HTTP status
    return error.status, known


def _renamed(text: str) -> str:
    for chat_name, name in _NAMES:
        text = text.replace(chat_name, name)
    return text
