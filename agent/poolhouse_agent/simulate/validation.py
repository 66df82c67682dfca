"""Reads a chat request as vLLM does, and refuses it in vLLM's words and shapes."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_MAX_LOGPROBS = 20


class Refused(Exception):
    """An answer with a status; `body` has one of vLLM's three error shapes."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(str(body))
        self.status = status
        self.body = body


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What the simulator honours of a chat request."""

    messages: list[dict[str, Any]]
    max_tokens: int | None
    min_tokens: int
    stop: tuple[str, ...]
    choices: int
    seed: int
    is_stream: bool
    has_usage: bool
    has_usage_always: bool
    tools: list[dict[str, Any]] | None
    tool_choice: Any
    schema: dict[str, Any] | None
    fixed_choices: tuple[str, ...]
    top_logprobs: int | None
    has_token_ids: bool
    ignores_end: bool
    cache_salt: str


def bad_request(message: str, *, param: str | None = None, value: Any = None) -> Refused:
    """The shape of a value that vLLM checks itself."""
    if param is not None:
        message += f" (parameter={param})" if value is None else f" (parameter={param}, value={value})"
    return failure(400, message, "BadRequestError", param)


def failure(status: int, message: str, kind: str, param: str | None = None) -> Refused:
    """The shape with an `error` object; `code` repeats the status."""
    return Refused(status, {"error": {"message": message, "type": kind, "param": param, "code": status}})


def _invalid(kind: str, where: str, message: str, given: Any) -> Refused:
    shown = given if isinstance(given, str | int | float) else f"<{type(given).__name__} of {len(given)} items>"
    detail = {"type": kind, "loc": where, "msg": message, "input": shown}
    return failure(400, f"1 validation error:\n  {detail}", "Bad Request", where)


def parse(raw: bytes, *, served_name: str) -> ChatRequest:
    """Read a chat request. Raises Refused."""
    body = _body(raw, served_name)
    return _request(body, messages=_messages(body), top_logprobs=_logprobs(body))


def parse_text(raw: bytes, *, served_name: str) -> tuple[ChatRequest, list[Any]]:
    """Read a request for text completions, and its prompts, each a text or a list of ids. Raises Refused."""
    body = _body(raw, served_name)
    top = body.get("logprobs")
    if top is not None and (type(top) is not int or not 0 <= top <= _MAX_LOGPROBS):
        raise bad_request(f"Requested sample logprobs of {top}", param="logprobs")
    prompts = prompts_of(body.get("prompt"))
    if not all(prompts):
        raise bad_request("Either prompt or prompt_embeds must be provided and non-empty.", param="prompt")
    return _request(body, messages=[], top_logprobs=top), prompts


def parse_vectors(raw: bytes, *, served_name: str) -> dict[str, Any]:
    """Read an embedding request; a format of null is refused, as vLLM does. Raises Refused."""
    body = _body(raw, served_name)
    if "encoding_format" in body and body["encoding_format"] not in {"float", "base64"}:
        message = "Input should be 'float' or 'base64'"
        raise _invalid("literal_error", "body.encoding_format", message, str(body["encoding_format"]))
    body["input"] = prompts_of(body.get("input"))
    return body


def prompts_of(value: Any) -> list[Any]:
    """The prompts, each a text or a list of ids. Raises Refused."""
    many = value if isinstance(value, list) and value and not isinstance(value[0], int) else [value]
    if not value or any(not isinstance(one, str | list) for one in many):
        raise bad_request("You must pass at least one prompt")
    return many


def _body(raw: bytes, served_name: str) -> dict[str, Any]:
    body = _object(raw)
    model = body.get("model")
    if model is not None and model != served_name:
        message = f"The model `{model}` does not exist. Valid aliases: {served_name}."
        raise failure(404, message, "NotFoundError", "model")
    return body


def _request(body: dict[str, Any], *, messages: list[dict[str, Any]], top_logprobs: int | None) -> ChatRequest:
    options = body.get("stream_options") or {}
    is_stream = bool(body.get("stream"))
    if options and not is_stream:
        raise bad_request("Stream options can only be defined when `stream=True`.", param="stream_options")
    _check_sampling(body)
    schema, fixed = _structure(body)
    return ChatRequest(
        messages=messages,
        max_tokens=_max_tokens(body),
        min_tokens=int(body.get("min_tokens") or 0),
        stop=_stop(body.get("stop")),
        choices=_choices(body.get("n")),
        seed=int(body.get("seed") or 0),
        is_stream=is_stream,
        has_usage=bool(options.get("include_usage")),
        has_usage_always=bool(options.get("continuous_usage_stats")),
        tools=body.get("tools") or None,
        tool_choice=body.get("tool_choice"),
        schema=schema,
        fixed_choices=fixed,
        top_logprobs=top_logprobs,
        has_token_ids=bool(body.get("return_token_ids")),
        ignores_end=bool(body.get("ignore_eos")),
        cache_salt=_salt(body.get("cache_salt")),
    )


def _object(raw: bytes) -> dict[str, Any]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(400, {"detail": "There was an error parsing the body"}) from None
    try:
        body = json.loads(text)
    except json.JSONDecodeError as error:
        raise _invalid("json_invalid", f"body.{error.pos}", "JSON decode error", {}) from None
    except RecursionError:
        raise Refused(400, {"detail": "There was an error parsing the body"}) from None
    if not isinstance(body, dict):
        message = "Input should be a valid dictionary or object to extract fields from"
        raise _invalid("model_attributes_type", "body", message, body)
    return body


def _messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if messages is None:
        raise _invalid("missing", "body.messages", "Field required", body)
    if not isinstance(messages, list):
        raise _invalid("list_type", "body.messages", "Input should be a valid list", messages)
    if not messages:
        raise bad_request("Cannot apply chat template to an empty conversation. Provide at least one message.")
    return [_message(message, number) for number, message in enumerate(messages)]


def _message(message: Any, number: int) -> dict[str, Any]:
    if not isinstance(message, dict) or not isinstance(message.get("role"), str):
        raise _invalid("missing", f"body.messages.{number}.role", "Field required", message)
    content = message.get("content")
    if isinstance(content, list):
        content = "\n".join(_part_text(part) for part in content)
    return {**message, "content": content}


def _part_text(part: Any) -> str:
    if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str):
        return str(part["text"])
    if isinstance(part, dict) and "image_url" in part:
        raise bad_request("this model is not a multimodal model")
    raise _invalid("missing", "body.messages.content.text", "Field required", part)


def _check_sampling(body: dict[str, Any]) -> None:
    temperature, top_p = body.get("temperature"), body.get("top_p")
    if isinstance(temperature, str):
        message = "Input should be a valid number, unable to parse string as a number"
        raise _invalid("float_parsing", "body.temperature", message, temperature)
    if temperature is not None and temperature < 0:
        raise bad_request(
            f"temperature must be non-negative, got {float(temperature)}.",
            param="temperature",
            value=float(temperature),
        )
    if top_p is not None and not 0 < top_p <= 1:
        raise bad_request(f"top_p must be in (0, 1], got {float(top_p)}.", param="top_p", value=float(top_p))


def _max_tokens(body: dict[str, Any]) -> int | None:
    for name in ("max_completion_tokens", "max_tokens"):
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int):
            raise _invalid("int_type", f"body.{name}", "Input should be a valid integer", value)
        if value < 1:
            raise bad_request(f"max_tokens must be at least 1, got {value}.", param="max_tokens", value=value)
        return int(value)
    return None


def _choices(value: Any) -> int:
    if value is None:
        return 1
    if not isinstance(value, int) or value < 1:
        raise bad_request(f"n must be at least 1, got {value}.")
    return value


def _stop(value: Any) -> tuple[str, ...]:
    values: Sequence[Any] = (value,) if isinstance(value, str) else value or ()
    return tuple(str(one) for one in values if one)


def _logprobs(body: dict[str, Any]) -> int | None:
    if not body.get("logprobs"):
        return None
    count = int(body.get("top_logprobs") or 0)
    if count > _MAX_LOGPROBS:
        message = f"Requested sample logprobs of {count}, which is greater than max allowed: {_MAX_LOGPROBS}"
        raise bad_request(message, param="logprobs", value=count)
    return count


def _salt(value: Any) -> str:
    if value is not None and (not isinstance(value, str) or not value):
        raise bad_request("Parameter 'cache_salt' must be a non-empty string if provided.", param="cache_salt")
    return value or ""


def _structure(body: dict[str, Any]) -> tuple[dict[str, Any] | None, tuple[str, ...]]:
    wanted = body.get("structured_outputs") or {}
    if wanted.get("choice"):
        return None, tuple(str(one) for one in wanted["choice"])
    if wanted.get("json") is not None:
        schema = json.loads(wanted["json"]) if isinstance(wanted["json"], str) else wanted["json"]
        return schema, ()
    response_format = body.get("response_format") or {}
    match response_format.get("type"):
        case "json_schema":
            return (response_format.get("json_schema") or {}).get("schema") or {}, ()
        case "json_object":
            return {"type": "object", "properties": {"answer": {"type": "string"}}}, ()
    return None, ()
