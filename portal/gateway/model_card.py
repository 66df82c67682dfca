"""What a model takes and gives, in the words of OpenAI's list and of aggregators' lists of providers."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.fields import sampling

ENDPOINTS: Final[Mapping[str, tuple[str, ...]]] = {
    "chat": ("chat/completions", "completions", "responses", "messages", "tokenize"),
    "embedding": ("embeddings", "tokenize"),
}
_ALWAYS: Final[Mapping[str, frozenset[str]]] = {
    "chat": frozenset(sampling.COMMON)
    | {"logprobs", "max_completion_tokens", "max_tokens", "stream", "stream_options", "top_logprobs"},
    "embedding": frozenset({"encoding_format"}),
}
_SAMPLING: Final = frozenset(sampling.COMMON) | {"max_tokens", "min_p", "repetition_penalty", "top_k"}
# A feature, and the parameters of which one must be there for it.
_FEATURES: Final[Mapping[str, frozenset[str]]] = {
    "json_mode": frozenset({"response_format"}),
    "logprobs": frozenset({"logprobs"}),
    "reasoning": frozenset({"chat_template_kwargs.enable_thinking", "reasoning_effort"}),
    "structured_outputs": frozenset({"response_format", "structured_outputs"}),
    "tools": frozenset({"tools"}),
}


def describe(model: ModelEntry) -> dict[str, Any]:
    """Return everything about the model that does not depend on who asks."""
    parameters = model.supported_parameters | _ALWAYS[model.task]
    is_chat = model.task == "chat"
    return {
        "id": model.public_id,
        "object": "model",
        "created": int(model.created_at),
        "owned_by": "pool",
        "name": model.name,
        "task": model.task,
        "context_length": model.context_tokens,
        "max_output_length": model.max_output_tokens if is_chat else 0,
        "embedding_dimensions": model.embedding_dimensions,
        "input_modalities": ["text"],
        "output_modalities": ["text" if is_chat else "embeddings"],
        "quantization": model.quantization or None,
        "supported_endpoints": [f"/v1/{path}" for path in ENDPOINTS[model.task]],
        "supported_parameters": sorted(parameters),
        "supported_sampling_parameters": sorted(parameters & _SAMPLING),
        "supported_features": [name for name, any_of in _FEATURES.items() if parameters & any_of],
        "deprecates_at": int(model.deprecates_at) if model.deprecates_at is not None else None,
        "deprecation_date": _day(model.deprecates_at),
    }


def endpoints_text(model: ModelEntry) -> str:
    """Return where the model is served, for an error's message."""
    return ", ".join(f"/v1/{path}" for path in ENDPOINTS[model.task])


def _day(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, tz=UTC).date().isoformat()
