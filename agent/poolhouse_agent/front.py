"""The only door to an engine: known paths, known body fields, no addresses. Whatever else is asked is refused."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from poolhouse_agent.errors import RequestRefused
from poolhouse_agent.protocol.frames import RequestHead

_SAMPLING = frozenset({
    "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "min_p", "min_tokens",
    "model", "n", "presence_penalty", "repetition_penalty", "response_format", "return_token_ids", "seed", "stop",
    "stream", "stream_options", "structured_outputs", "temperature", "top_k", "top_p", "cache_salt", "ignore_eos",
})  # fmt: skip
_FIELDS: Mapping[tuple[str, str], frozenset[str]] = {
    ("POST", "/v1/chat/completions"): _SAMPLING
    | {
        "chat_template_kwargs", "include_reasoning", "messages", "parallel_tool_calls", "reasoning_effort",
        "tool_choice", "tools", "top_logprobs",
    },
    ("POST", "/v1/completions"): _SAMPLING | {"prompt"},
    ("POST", "/v1/embeddings"): frozenset({"model", "input", "encoding_format", "dimensions"}),
    ("GET", "/v1/models"): frozenset(),
}  # fmt: skip
_TEMPLATE_KWARGS = frozenset({"enable_thinking"})
_MEDIA = frozenset({"image_url", "video_url", "audio_url"})
_MAX_CHOICES = 8


@dataclass(frozen=True, slots=True)
class Call:
    """A request that may go to the engine."""

    method: str
    path: str
    body: bytes | None


def admit(head: RequestHead, body: bytes, *, served_name: str) -> Call:
    """Check a request and put the engine's served name into it. Raises RequestRefused."""
    allowed = _FIELDS.get((head.method, head.path))
    if allowed is None:
        raise RequestRefused("path_refused", f"{head.method[:16]} {head.path[:100]}")
    if head.method == "GET":
        return Call(head.method, head.path, None)
    fields = _parse(body)
    for name in fields:
        if name not in allowed:
            raise RequestRefused("field_refused", name[:64])
    _check_choices(fields.get("n"))
    _check_template(fields.get("chat_template_kwargs"))
    _check_media(fields.get("messages"))
    fields["model"] = served_name
    return Call(head.method, head.path, json.dumps(fields, separators=(",", ":")).encode())


def _parse(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError):
        raise RequestRefused("field_refused", "the body is not JSON") from None
    if not isinstance(fields, dict):
        raise RequestRefused("field_refused", "the body is not an object")
    return fields


def _check_choices(count: Any) -> None:
    if isinstance(count, int) and count > _MAX_CHOICES:
        raise RequestRefused("field_refused", f"n above {_MAX_CHOICES}")


def _check_template(options: Any) -> None:
    if options is not None and (not isinstance(options, dict) or set(options) - _TEMPLATE_KWARGS):
        raise RequestRefused("field_refused", "chat_template_kwargs")


def _check_media(messages: Any) -> None:
    """Only embedded media: an address would make the engine fetch it from inside the owner's network."""
    for message in messages if isinstance(messages, list) else ():
        parts = message.get("content") if isinstance(message, dict) else None
        for part in parts if isinstance(parts, list) else ():
            for kind in _MEDIA & set(part if isinstance(part, dict) else ()):
                medium = part[kind]
                url = medium.get("url") if isinstance(medium, dict) else medium
                if not isinstance(url, str) or not url.startswith("data:"):
                    raise RequestRefused("field_refused", kind)
