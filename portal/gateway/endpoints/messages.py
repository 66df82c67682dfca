"""POST /v1/messages."""

from typing import Any, Final
from uuid import UUID

from portal.gateway import rewrite
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import Names, Stamp, Wording
from portal.gateway.dialects.messages import request
from portal.gateway.dialects.messages.answer import MessagesDialect
from portal.gateway.dialects.messages.wording import MessagesWording
from portal.gateway.endpoints.base import Reader, Translation
from portal.gateway.errors import Headers


class MessagesEndpoint:
    """Chat in Anthropic's words."""

    task: Final = "chat"
    node_path: Final = "chat/completions"
    reader: Final[Reader] = rewrite

    def wording(self, request_id: UUID) -> Wording:
        """Return Anthropic's."""
        return MessagesWording(request_id)

    def headers(self, request_id: UUID) -> Headers:
        """Return the request's id by the name that Anthropic gives it."""
        return request_id_header(request_id)

    def translate(self, raw: dict[str, Any], model: ModelEntry, stamp: Stamp) -> Translation:
        """Check and translate the request. Raises ApiError naming the field."""
        asked = request.to_chat(raw).checked(model, renamed=request.RENAMED)
        names = Names(
            answer_id=f"msg_{stamp.request_id.hex}",
            created=stamp.created,
            model=model.public_id,
            choices=1,
            has_logprobs=False,
            stops=frozenset(asked.body.get("stop", ())),
        )
        return Translation.of(asked, names, MessagesDialect(names, stamp))


def request_id_header(request_id: UUID) -> Headers:
    """Return the header that Anthropic's clients read."""
    return ((b"request-id", str(request_id).encode()),)
