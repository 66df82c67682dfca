"""The id that an answer has in the words of its endpoint."""

from collections.abc import Mapping
from typing import Final
from uuid import UUID

# The words of two of them take no dashes.
_FORMS: Final[Mapping[str, str]] = {
    "chat/completions": "chatcmpl-{}",
    "completions": "cmpl-{}",
    "embeddings": "embd-{}",
    "messages": "msg_{}",
    "responses": "resp_{}",
}
PREFIXES: Final = tuple(form.removesuffix("{}") for form in _FORMS.values())


def answer_id(*, endpoint: str, request_id: UUID) -> str:
    """Return the id under which the caller got the answer; the request's own for an endpoint that names none."""
    form = _FORMS.get(endpoint, "{}")
    return form.format(request_id.hex if form.endswith("_{}") else request_id)
