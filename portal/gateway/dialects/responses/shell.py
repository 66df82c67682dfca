"""What every response object repeats of its request."""

from typing import Any, Final

from portal.gateway.dialects.base import Names
from portal.gateway.dialects.responses import request, tools
from portal.gateway.fields.asked import Asked

_ECHOED: Final = ("instructions", "max_output_tokens", "prompt_cache_key", "safety_identifier", "user")


def shell(raw: dict[str, Any], asked: Asked, names: Names) -> dict[str, Any]:
    """Return a response without its status, output and usage. Raises ApiError for metadata out of bounds."""
    body = asked.body
    reasoning = raw.get("reasoning") or {}
    text = raw.get("text") or {}
    return {
        "id": names.answer_id,
        "object": "response",
        "created_at": names.created,
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        **{name: raw.get(name) for name in _ECHOED},
        "max_tool_calls": None,
        "metadata": request.metadata(raw),
        "model": names.model,
        "output": [],
        "parallel_tool_calls": body.get("parallel_tool_calls", True),
        "previous_response_id": None,
        "reasoning": {"effort": body.get("reasoning_effort"), "summary": None} if reasoning else None,
        "service_tier": "default",
        "store": False,
        "temperature": body.get("temperature"),
        "text": {"format": text.get("format") or {"type": "text"}},
        "tool_choice": raw.get("tool_choice") or "auto",
        "tools": tools.echoed(body.get("tools", [])),
        "top_logprobs": asked.logprobs or 0,
        "top_p": body.get("top_p"),
        "truncation": "disabled",
        "usage": None,
    }
