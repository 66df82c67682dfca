"""The upper bound of a request, from which its hold is made: no answer can cost more."""

from collections.abc import Mapping
from typing import Any, Protocol

from portal.billing.rules import rating
from portal.core.records import record
from portal.gateway.contracts import ModelEntry, PriceEntry
from portal.gateway.errors import INVALID_REQUEST, ApiError, too_long, unavailable
from portal.gateway.fields.asked import Asked


class PromptMeasure(Protocol):
    """Renders and counts prompts with the model's own template and tokenizer, off the event loop."""

    async def rendered_bytes(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        """Return the bytes of the rendered prompt; None where the model has no template."""

    async def prompt_tokens(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        """Return the exact prompt tokens; None where they cannot be counted now."""


@record(frozen=True, slots=True)
class Bound:
    """The most tokens a request can use."""

    prompt_tokens: int
    output_tokens: int

    def nano(self, price: PriceEntry) -> int:
        """Return the most it can cost, whichever way the prompt's tokens are priced."""
        uncached = rating.charge_nano(price=price, prompt=self.prompt_tokens, cached=0, completion=self.output_tokens)
        cached = rating.charge_nano(
            price=price, prompt=self.prompt_tokens, cached=self.prompt_tokens, completion=self.output_tokens
        )
        return max(uncached, cached)


async def of(asked: Asked, *, model: ModelEntry, measure: PromptMeasure) -> Bound:
    """Return the bound. Raises ApiError context_length_exceeded when that is certain, unboundable_request."""
    prompt_bytes = asked.prompt_bytes
    if prompt_bytes is None:
        prompt_bytes = await _measured(asked, model, measure)
    if asked.prompts == 1 and prompt_bytes >= model.context_tokens:
        await _require_room(asked, model, measure)
    return Bound(
        prompt_tokens=min(prompt_bytes, model.context_tokens * asked.prompts),
        output_tokens=asked.choices * asked.output_tokens,
    )


async def _measured(asked: Asked, model: ModelEntry, measure: PromptMeasure) -> int:
    """Return the bytes of the rendered messages, or the exact tokens of bare prompts that bytes do not bound."""
    is_chat = "messages" in asked.body
    found = await (measure.rendered_bytes if is_chat else measure.prompt_tokens)(model, asked.body)
    if found is not None:
        return found
    if not is_chat and model.tokenizer_sha256 is not None:
        raise unavailable("no_capacity", "Prompts cannot be counted now; retry.")
    missing = "chat template" if is_chat else "tokenizer"
    message = (
        f"{model.public_id} has no {missing} here, so this request cannot be bounded and paid for. "
        f"{'Send plain text messages without tools' if is_chat else 'Send token ids'}, "
        f"or ask the operator to upload the {missing}."
    )
    raise ApiError(400, INVALID_REQUEST, "unboundable_request", message)


async def _require_room(asked: Asked, model: ModelEntry, measure: PromptMeasure) -> None:
    counted = await measure.prompt_tokens(model, asked.body)
    if counted is not None and counted >= model.context_tokens:
        raise too_long(counted, model.context_tokens, param=asked.prompt_field)
