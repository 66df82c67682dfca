"""Renders a conversation the way the model's own chat template does, as vLLM and transformers do."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime

from jinja2 import Template, TemplateError

from portal.catalog.rules import bounded_jinja
from portal.catalog.rules.budget import Budget, TemplateTooExpensive, spending
from portal.core import clock
from portal.core.errors import InvalidValue

MAX_TEMPLATE_BYTES = 256 * 1024


class TemplateInvalid(InvalidValue):
    """The text is not a chat template that can be used."""

    code = "template_invalid"


class RenderingRefused(InvalidValue):
    """The template cannot render these messages: it refuses them, breaks, or spends too much."""

    code = "rendering_refused"


class RenderingTooCostly(RenderingRefused):
    """The template spends more than one rendering may; to a caller it reads as a refusal."""


def compile_template(text: str) -> Template:
    """Compile a chat template. Raises TemplateInvalid."""
    if len(text.encode()) > MAX_TEMPLATE_BYTES:
        raise TemplateInvalid(f"a chat template is at most {MAX_TEMPLATE_BYTES} bytes", param="chat_template")
    try:
        return bounded_jinja.compile_source(text)
    except (TemplateError, TemplateTooExpensive, SyntaxError, RecursionError, ValueError) as error:
        raise TemplateInvalid(f"the chat template does not compile: {error}"[:400], param="chat_template") from error


def render_chat(
    template: Template,
    *,
    messages: Sequence[Mapping[str, object]],
    tools: Sequence[Mapping[str, object]] | None = None,
    add_generation_prompt: bool = True,
    extra: Mapping[str, object] | None = None,
    now: datetime | None = None,
) -> str:
    """Return the prompt text. `now` is what the template's `strftime_now` sees. Raises RenderingRefused."""
    variables: dict[str, object] = {
        **(extra or {}),
        "tools": list(tools) if tools else None,
        "documents": None,
        "add_generation_prompt": add_generation_prompt,
        "strftime_now": bounded_jinja.strftime_at(now or clock.now()),
    }
    try:
        variables["messages"] = [_as_engine_hands_over(message) for message in messages]
        with spending(Budget()):
            return "".join(template.generate(variables))
    except TemplateTooExpensive as error:
        raise RenderingTooCostly(f"the model's chat template is stopped: {error}") from error
    except (
        TemplateError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError, RecursionError,
    ) as error:  # fmt: skip
        raise RenderingRefused(f"the model's chat template refuses these messages: {error}"[:400]) from error


def _as_engine_hands_over(message: Mapping[str, object]) -> Mapping[str, object]:
    """Return a message as vLLM gives it to a template: its text is never null, a call's arguments are an object."""
    calls = message.get("tool_calls")
    if message.get("content") is not None and not calls:
        return message
    changed: dict[str, object] = {**message, "content": message.get("content") or ""}
    if isinstance(calls, list):
        changed["tool_calls"] = [_call(call) for call in calls]
    return changed


def _call(call: Mapping[str, object]) -> Mapping[str, object]:
    function = call.get("function")
    if not isinstance(function, Mapping):
        return call
    return {**call, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(text: object) -> dict[str, object]:
    if isinstance(text, dict):
        return text
    try:
        found = json.loads(str(text or "{}"))
    except (json.JSONDecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def bake(text: str, special_tokens: Mapping[str, str]) -> str:
    """Return the template with the model's special tokens (`bos_token`, …) set inside it, so that it stands alone."""
    lines = [
        f"{{%- set {name} = {_literal(value)} -%}}\n"
        for name, value in sorted(special_tokens.items())
        if name.isidentifier() and name.endswith("_token")
    ]
    return "".join(lines) + text


def _literal(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
