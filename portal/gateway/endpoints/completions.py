"""POST /v1/completions."""

from typing import Any, Final

from portal.gateway import rewrite_texts
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import Names, Stamp
from portal.gateway.dialects.completions import CompletionsDialect
from portal.gateway.endpoints.base import InOpenAIsWords, Reader, Translation
from portal.gateway.fields import completions


class CompletionsEndpoint(InOpenAIsWords):
    """Texts continued, in OpenAI's words, which are the node's as well."""

    task: Final = "chat"
    node_path: Final = "completions"
    reader: Final[Reader] = rewrite_texts

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
        return Translation.of(
            asked, names, CompletionsDialect(names, currency=stamp.currency, wants_usage=asked.wants_usage)
        )
