"""POST /v1/chat/completions."""

from typing import Any, Final
from uuid import UUID

from portal.gateway import rewrite
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import OPENAI, Names, Stamp, Wording
from portal.gateway.dialects.chat import ChatDialect
from portal.gateway.endpoints.base import Reader, Translation
from portal.gateway.errors import Headers
from portal.gateway.fields import chat
from portal.gateway.fields.asked import Asked


class ChatEndpoint:
    """Chat in OpenAI's words, which are the node's as well."""

    task: Final = "chat"
    node_path: Final = "chat/completions"
    reader: Final[Reader] = rewrite

    def wording(self, request_id: UUID) -> Wording:
        """Return OpenAI's."""
        del request_id
        return OPENAI

    def headers(self, request_id: UUID) -> Headers:
        """Return none."""
        del request_id
        return ()

    def translate(self, raw: dict[str, Any], model: ModelEntry, stamp: Stamp) -> Translation:
        """Check the request. Raises ApiError naming the field."""
        asked = chat.check(raw, model)
        names = chat_names(asked, model, stamp, answer_id=f"chatcmpl-{stamp.request_id}")
        dialect = ChatDialect(names, currency=stamp.currency, wants_usage=asked.wants_usage)
        return Translation(asked, names, dialect)


def chat_names(asked: Asked, model: ModelEntry, stamp: Stamp, *, answer_id: str) -> Names:
    """Return what every answer to this chat carries."""
    return Names(
        answer_id=answer_id,
        created=stamp.created,
        model=model.public_id,
        choices=asked.choices,
        has_logprobs=asked.logprobs is not None,
    )
