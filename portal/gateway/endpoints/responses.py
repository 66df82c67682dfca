"""POST /v1/responses."""

from typing import Any, Final
from uuid import UUID

from portal.gateway import rewrite
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import Names, Stamp, Wording
from portal.gateway.dialects.responses import request
from portal.gateway.dialects.responses.answer import ResponsesDialect
from portal.gateway.dialects.responses.shell import shell
from portal.gateway.dialects.responses.wording import RESPONSES
from portal.gateway.endpoints.base import InOpenAIsWords, Reader, Translation


class ResponsesEndpoint(InOpenAIsWords):
    """Chat in the words of OpenAI's Responses."""

    task: Final = "chat"
    node_path: Final = "chat/completions"
    reader: Final[Reader] = rewrite

    def wording(self, request_id: UUID) -> Wording:
        """Return OpenAI's, with this endpoint's names."""
        del request_id
        return RESPONSES

    def translate(self, raw: dict[str, Any], model: ModelEntry, stamp: Stamp) -> Translation:
        """Check and translate the request. Raises ApiError naming the field."""
        asked = request.to_chat(raw).checked(model, renamed=request.RENAMED)
        names = Names(
            answer_id=f"resp_{stamp.request_id.hex}",
            created=stamp.created,
            model=model.public_id,
            choices=1,
            has_logprobs=asked.logprobs is not None,
        )
        return Translation.of(asked, names, ResponsesDialect(shell(raw, asked, names), stamp))
