"""POST /v1/embeddings."""

from typing import Any, Final

from portal.gateway import rewrite_vectors
from portal.gateway.contracts import ModelEntry
from portal.gateway.dialects.base import Names, Stamp
from portal.gateway.dialects.embeddings import EmbeddingsDialect
from portal.gateway.endpoints.base import InOpenAIsWords, Reader, Translation
from portal.gateway.fields import embeddings


class EmbeddingsEndpoint(InOpenAIsWords):
    """Vectors of texts, charged by our own count of the prompts alone."""

    task: Final = "embedding"
    node_path: Final = "embeddings"
    reader: Final[Reader] = rewrite_vectors

    def translate(self, raw: dict[str, Any], model: ModelEntry, stamp: Stamp) -> Translation:
        """Check the request. Raises ApiError naming the field."""
        asked = embeddings.check(raw, model)
        names = Names(
            answer_id=f"embd-{stamp.request_id}",
            created=stamp.created,
            model=model.public_id,
            choices=asked.choices,
            has_logprobs=False,
            vector_length=embeddings.vector_length(asked, model),
            is_base64=asked.body.get("encoding_format") == "base64",
        )
        return Translation(asked, names, EmbeddingsDialect(names, currency=stamp.currency))
