"""What both stand-ins answer: the bytes of a vLLM server that computes nothing."""

from dataclasses import dataclass, field

PROMPT_TOKENS = 12
_HEAD = b'{"id":"chatcmpl-0","object":"chat.completion%s","created":1700000000,"model":"m","choices":['
WHOLE = (
    _HEAD % b"" + b'{"index":0,"message":{"role":"assistant","content":"Hello there, this is a short answer."},'
    b'"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"total_tokens":21,"completion_tokens":9}}'
)
MODELS = (
    b'{"object":"list","data":[{"id":"m","object":"model","created":1,"owned_by":"vllm","max_model_len":4096},'
    b'{"id":"acme/chat-8b","object":"model","created":1,"owned_by":"vllm","max_model_len":4096}]}'
)
DONE = b"data: [DONE]\n\n"
_DELTA = b'{"index":0,"delta":{"content":"%s"},"logprobs":null,"finish_reason":%s}]%s}'


def _event(delta: bytes, reason: bytes, counts: bytes) -> bytes:
    return b"data: " + _HEAD % b".chunk" + _DELTA % (delta, reason, counts) + b"\n\n"


def _counts(completion: int) -> bytes:
    total = PROMPT_TOKENS + completion
    return b',"usage":{"prompt_tokens":12,"total_tokens":%d,"completion_tokens":%d}' % (total, completion)


@dataclass(frozen=True)
class Stream:
    """The events of one streamed answer; `has_counts` is vLLM's `continuous_usage_stats`."""

    tokens: int
    has_counts: bool = False
    events: list[bytes] = field(init=False)
    end: bytes = field(init=False)
    end_with_usage: bytes = field(init=False)

    def __post_init__(self) -> None:
        numbers = range(1, self.tokens + 1)
        events = [_event(b" token", b"null", _counts(number) if self.has_counts else b"") for number in numbers]
        stop = _event(b"", b'"stop"', _counts(self.tokens) if self.has_counts else b"")
        usage = b"data: " + _HEAD % b".chunk" + b"]" + _counts(self.tokens) + b"}\n\n"
        object.__setattr__(self, "events", events)
        object.__setattr__(self, "end", stop + DONE)
        object.__setattr__(self, "end_with_usage", stop + usage + DONE)


def is_streamed(body: bytes) -> bool:
    """Tell whether a request's body asks for a stream."""
    return b'"stream":true' in body or b'"stream": true' in body
