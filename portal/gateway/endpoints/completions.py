"""POST /v1/completions."""

from typing import Any, Final
from uuid import UUID

from portal.gateway import rewrite_texts
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import OPENAI, Names, Stamp, Wording
from portal.gateway.dialects.completions import CompletionsDialect
from portal.gateway.endpoints.base import Reader, Translation
from portal.gateway.errors import Headers
from portal.gateway.fields import completions


class CompletionsEndpoint:
    """Texts continued, in OpenAI's words, which are the node's as well."""

    task: Final = "chat"
    node_path: Final = "completions"
    reader: Final[Reader] = rewrite_texts

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
        asked = completions.check(raw, model)
        names = Names(
            answer_id=f"cmpl-{stamp.request_id}",
            created=stamp.created,
            model=model.public_id,
            choices=asked.choices,
            has_logprobs=asked.logprobs is not None,
        )
        return Translation(
            asked, names, CompletionsDialect(names, currency=stamp.currency, wants_usage=asked.wants_usage)
        )
