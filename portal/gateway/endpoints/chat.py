"""POST /v1/chat/completions."""

from typing import Any, Final

from portal.gateway import rewrite
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import Names, Stamp
from portal.gateway.dialects.chat import ChatDialect
from portal.gateway.endpoints.base import InOpenAIsWords, Reader, Translation
from portal.gateway.fields import chat


class ChatEndpoint(InOpenAIsWords):
    """Chat in OpenAI's words, which are the node's as well."""

    task: Final = "chat"
    node_path: Final = "chat/completions"
    reader: Final[Reader] = rewrite

    def translate(self, raw: dict[str, Any], model: ModelEntry, stamp: Stamp) -> Translation:
        """Check the request. Raises ApiError naming the field."""
        asked = chat.check(raw, model)
        names = Names(
            answer_id=f"chatcmpl-{stamp.request_id}",
            created=stamp.created,
            model=model.public_id,
            choices=asked.choices,
            has_logprobs=asked.logprobs is not None,
        )
        dialect = ChatDialect(names, currency=stamp.currency, wants_usage=asked.wants_usage)
        return Translation.of(asked, names, dialect)
