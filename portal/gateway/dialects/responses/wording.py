"""Errors as `/v1/responses` puts them: OpenAI's shape, with the names that fields have there."""

from typing import Any, Final

from portal.gateway.dialects.base import event
from portal.gateway.errors import ApiError

# A chat's names for what has another name here.
_NAMES: Final = (
    (".function.", "."),
    ("response_format.json_schema", "text.format"),
    ("response_format", "text.format"),
    ("reasoning_effort", "reasoning.effort"),
)


class ResponsesWording:
    """Errors before the answer has begun."""

    __slots__ = ()

    def error(self, error: ApiError) -> bytes:
        """Return the error as the last event of a stream."""
        return event(self.refusal(error)[1])

    def refusal(self, error: ApiError) -> tuple[int, dict[str, Any]]:
        """Return the status and the error object."""
        param = "input" if error.param == "messages" else error.param
        message = renamed(error.message)
        fields = {"message": message, "type": error.kind, "param": param and renamed(param), "code": error.code}
        return error.status, {"error": fields}


RESPONSES: Final = ResponsesWording()


def renamed(text: str) -> str:
    """Return a text about a chat's fields in this endpoint's names."""
    for chat_name, name in _NAMES:
        text = text.replace(chat_name, name)
    return text
