"""The fields of `/v1/embeddings`: one table, from which the body for the node is built anew."""

from collections.abc import Mapping
from typing import Any, Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import prompts, sampling, values
from portal.gateway.fields.asked import Asked

MAX_INPUTS: Final = 2_048
MAX_ANSWER_BYTES: Final = 32 * 1024 * 1024
BYTES_PER_NUMBER: Final = 26
_FORMATS: Final = frozenset({"float", "base64"})
_HANDLED: Final = frozenset({"dimensions", "encoding_format", "input", "model"})


def check(raw: dict[str, Any], model: ModelEntry) -> Asked:
    """Return the checked request. Raises ApiError invalid_value or unsupported_parameter naming the field.

    What the customer did not send is not sent to the node either: engines refuse `encoding_format: null`.
    """
    sampling.refuse(raw)
    if raw.get("input") is None:
        raise invalid("input is missing.", param="input")
    given = prompts.read(
        raw["input"], "input", model=model, longest=MAX_INPUTS, added_tokens=model.request_overhead_bytes
    )
    body: dict[str, Any] = {"model": model.public_id, "input": given.value}
    ignored = sampling.copy(raw, body, table={}, listed={}, handled=_HANDLED, model=model)
    if raw.get("encoding_format") is not None:
        body["encoding_format"] = values.word(raw["encoding_format"], "encoding_format", _FORMATS)
    length = _dimensions(raw, body, model)
    answer_bytes = given.count * length * BYTES_PER_NUMBER
    if answer_bytes > MAX_ANSWER_BYTES:
        most = MAX_ANSWER_BYTES // (length * BYTES_PER_NUMBER)
        raise invalid(f"input has {given.count} prompts; at most {most} with vectors of {length}.", param="input")
    return Asked(
        body=body,
        prompt_bytes=given.tokens,
        prompts=given.count,
        choices=given.count,
        answer_bytes=answer_bytes,
        is_cached=False,
        ignored=ignored,
        prompt_field="input",
    )


def vector_length(asked: Asked, model: ModelEntry) -> int:
    """Return how many numbers each vector must have."""
    return int(asked.body.get("dimensions") or model.embedding_dimensions or 0)


def _dimensions(raw: Mapping[str, Any], body: dict[str, Any], model: ModelEntry) -> int:
    full = model.embedding_dimensions or 0
    if raw.get("dimensions") is None:
        return full
    wanted = values.whole(raw["dimensions"], "dimensions", low=1, high=full)
    if wanted == full:
        return full
    if "dimensions" not in model.supported_parameters:
        raise unsupported(f"{model.public_id} has vectors of {full} numbers only.", param="dimensions")
    body["dimensions"] = wanted
    return wanted
