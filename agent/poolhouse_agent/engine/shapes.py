"""The shapes of requests that a pool sends, each small enough to be a test of readiness."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from poolhouse_agent.protocol.messages import Desired

CHAT_PATH = "/v1/chat/completions"
TEXT_PATH = "/v1/completions"
VECTOR_PATH = "/v1/embeddings"
_SCHEMA = {
    "type": "object",
    "properties": {"ok": {"type": "boolean"}},
    "required": ["ok"],
    "additionalProperties": False,
}
_TOOL = {
    "type": "function",
    "function": {
        "name": "look_up",
        "description": "Looks something up.",
        "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
    },
}


@dataclass(frozen=True, slots=True)
class Shape:
    """One kind of request: its name, its path, and what its body has beside the model."""

    name: str
    path: str
    body: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_stream(self) -> bool:
        """Whether the answer is a stream of events."""
        return bool(self.body.get("stream"))


def _chat(name: str, **more: Any) -> Shape:
    body = {"messages": [{"role": "user", "content": "ping"}], "max_tokens": 1, "temperature": 0, **more}
    return Shape(name, CHAT_PATH, body)


CHAT = _chat("chat")
STREAM = _chat("stream", max_tokens=2, stream=True, stream_options={"include_usage": True})
VECTOR = Shape("embeddings", VECTOR_PATH, {"input": "ping"})
_SCHEMA_FORMAT = {"type": "json_schema", "json_schema": {"name": "probe", "schema": _SCHEMA}}
_TEXT_STREAM = {
    "prompt": "ping", "max_tokens": 2, "temperature": 0, "stream": True, "stream_options": {"include_usage": True},
}  # fmt: skip
_OF_CHATS = (
    STREAM,
    _chat("logprobs", logprobs=True, top_logprobs=1),
    _chat("json schema", max_tokens=2, response_format=_SCHEMA_FORMAT),
    Shape("completions", TEXT_PATH, {"prompt": "ping", "max_tokens": 1, "temperature": 0}),
    Shape("completions stream", TEXT_PATH, _TEXT_STREAM),
)
_OF_VECTORS = (
    Shape("embeddings of several", VECTOR_PATH, {"input": ["ping", "pong"]}),
    Shape("embeddings in base64", VECTOR_PATH, {"input": "ping", "encoding_format": "base64"}),
)


def beyond(first: Shape, desired: Desired) -> tuple[Shape, ...]:
    """The shapes that an engine which answered `first` must answer too.

    A server that is not ours is asked for what every server has: its owner chose what it can do.
    """
    if desired.engine != "vllm":
        return (STREAM,) if first is CHAT and desired.engine == "external" else ()
    if first is VECTOR:
        return _OF_VECTORS
    takes_tools = desired.engine_args.get("enable_auto_tool_choice") and desired.engine_args.get("tool_call_parser")
    return (*_OF_CHATS, _chat("tools", tools=[_TOOL], tool_choice="auto")) if takes_tools else _OF_CHATS
