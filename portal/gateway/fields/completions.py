"""The fields of `/v1/completions`: one table, from which the body for the node is built anew."""

from collections.abc import Mapping
from typing import Any, Final

from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import invalid, unsupported
from portal.gateway.fields import prompts, sampling, schemas, values
from portal.gateway.fields.asked import Asked
from portal.gateway.fields.sampling import Check

MAX_PROMPTS: Final = 128
MAX_LOGPROBS: Final = 5

_HANDLED: Final = frozenset(
    {
        "best_of",
        "echo",
        "max_completion_tokens",
        "max_tokens",
        "model",
        "prompt",
        "response_format",
        "stream",
        "stream_options",
        "suffix",
    }
)
_COPIED: Final[Mapping[str, Check]] = {**sampling.COMMON, "logprobs": sampling.whole(0, MAX_LOGPROBS)}
_ENGINE_REACHING: Final = sampling.ENGINE_REACHING - {"best_of", "echo"}
_OF_CHATS: Final = frozenset({"messages", "tool_choice", "tools"})


def check(raw: dict[str, Any], model: ModelEntry) -> Asked:
    """Return the checked request. Raises ApiError invalid_value or unsupported_parameter naming the field."""
    sampling.refuse(raw, _ENGINE_REACHING)
    _refuse(raw)
    given = prompts.read(
        raw.get("prompt"), "prompt", model=model, longest=MAX_PROMPTS, added_tokens=prompts.most_added(model)
    )
    body: dict[str, Any] = {"model": model.public_id, "prompt": given.value}
    ignored = sampling.copy(raw, body, table=_COPIED, listed=sampling.LISTED, handled=_HANDLED, model=model)
    _structure(raw, body, model)
    is_stream, wants_usage = sampling.streaming(raw)
    body["max_tokens"] = output_tokens = sampling.output_tokens(raw, model)
    return Asked(
        body=body,
        prompt_bytes=given.tokens,
        prompts=given.count,
        choices=given.count * body.get("n", 1),
        output_tokens=output_tokens,
        is_stream=is_stream,
        wants_usage=wants_usage,
        logprobs=body.get("logprobs"),
        ignored=ignored,
        prompt_field="prompt",
        opening=[{"content": given.opening}],
    )


def _refuse(raw: Mapping[str, Any]) -> None:
    if raw.get("prompt") is None:
        raise invalid("prompt is missing.", param="prompt")
    if raw.get("echo") is not None and values.boolean(raw["echo"], "echo"):
        raise unsupported("echo is not offered: the prompt would be paid for as output. Prepend it.", param="echo")
    if raw.get("suffix"):
        raise unsupported("suffix is not offered: these models continue a text, they do not fill it.", param="suffix")
    if raw.get("best_of") not in {None, 1, raw.get("n")}:
        message = "best_of is not offered: what is thrown away would be paid for as well. Use n and choose."
        raise unsupported(message, param="best_of")
    for field in _OF_CHATS:
        if raw.get(field) is not None:
            raise invalid(f"{field} belongs to /v1/chat/completions.", param=field)


def _structure(raw: Mapping[str, Any], body: dict[str, Any], model: ModelEntry) -> None:
    if raw.get("response_format") is None:
        return
    wanted = schemas.response_format(raw["response_format"])
    if wanted is None:
        return
    if not model.supported_parameters.intersection({"response_format", "structured_outputs"}):
        raise unsupported(f"{model.public_id} does not offer response_format.", param="response_format")
    body["response_format"] = wanted
