"""`/v1/embeddings` as its customers read it; it has no streams."""

from typing import Any

from portal.core.money import decimal_text
from portal.gateway.contracts import Settled
from portal.gateway.dialects.base import Choices, Names, OpenAIWording


class EmbeddingsDialect(OpenAIWording):
    """A list of vectors."""

    __slots__ = ("_currency", "_names")

    def __init__(self, names: Names, *, currency: str) -> None:
        self._names = names
        self._currency = currency

    def whole(self, choices: Choices, settled: Settled) -> dict[str, Any]:
        """Return the vectors with the usage of their prompts."""
        usage = {
            "prompt_tokens": settled.prompt_tokens,
            "total_tokens": settled.prompt_tokens,
            "cost": decimal_text(settled.charge_nano),
            "currency": self._currency,
        }
        return {"object": "list", "data": choices, "model": self._names.model, "usage": usage}
