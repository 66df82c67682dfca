"""How an attempt can fail, what that says about the node, and what the customer is told; node texts go no further."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from portal.gateway.breaker import Verdict, clamped
from portal.gateway.errors import INVALID_REQUEST, ApiError, invalid, node_failed, unavailable
from portal.gateway.tunnel import frames

FAULT: Final = "node_fault"
TIMEOUT: Final = "node_timeout"
BUSY: Final = "node_busy"
EMPTY: Final = "empty"
CUSTOMER: Final = "customer_error"

MAX_ERROR_BYTES: Final = 65_536
_CONTEXT: Final = re.compile(
    r"maximum context length|max_model_len|context length|context window|maximum model length|prompt is too long",
    re.IGNORECASE,
)
_BUSY_CODES: Final = frozenset({"draining", "too_many_streams", "model_not_running"})
_NEUTRAL_CODES: Final = frozenset({"tunnel_lost", "canceled"})
# Which rule of the failure catalogue a code is evidence against. Other codes are honest troubles and no evidence.
_RULES: Final = {
    "answer_not_json": "answer_malformed",
    "answer_not_an_object": "answer_malformed",
    "answer_without_choices": "answer_malformed",
    "answer_incomplete": "answer_malformed",
    "choice_not_an_object": "answer_malformed",
    "choice_index": "answer_malformed",
    "choice_without_text": "answer_malformed",
    "answer_streamed": "answer_malformed",
    "vector_malformed": "answer_malformed",
    "vector_not_finite": "answer_malformed",
    "text_not_a_string": "answer_malformed",
    "tool_call": "answer_malformed",
    "tool_call_text": "answer_malformed",
    "tool_calls": "answer_too_large",
    "logprobs": "answer_malformed",
    "event_too_large": "answer_too_large",
    "answer_too_large": "answer_too_large",
    "stream_too_long": "stream_too_long",
    "stream_without_text": "stream_without_text",
    "stream_truncated": "stream_truncated",
    "event_after_done": "stream_after_end",
    "body_before_head": "frames_out_of_order",
    "second_head": "frames_out_of_order",
    "head_without_status": "frames_out_of_order",
    "frame_not_json": "frames_out_of_order",
    "frames_too_small": "frames_too_small",
    "content_type_wrong": "content_type_wrong",
    "timeout_total": "answer_too_slow",
    "timeout_send": "node_silent",
    "timeout_first_token": "node_silent",
    "timeout_idle": "node_silent",
    "timeout_answer": "node_silent",
    "engine_error": "engine_error",
}
_STAGES: Final = {
    "timeout_send": "The node did not take the request in time",
    "timeout_first_token": "The node sent no token within the model's time for the first one",
    "timeout_idle": "The node fell silent in the middle of its answer",
    "timeout_answer": "The node sent no answer within the time that max_tokens allows",
    "timeout_total": "The node was slower than the slowest speed the pool accepts",
}
_ENGINE_STATUS: Final = "engine_status"
_REFUSED: Final = "engine_refused"
CONTEXT: Final = "context_length_exceeded"
_BUSY_BACKOFF_S: Final = 1.0
_SOONEST_RETRY_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class Ending:
    """What an answer without text came as: the choices of each event of a stream, or those of a whole answer."""

    pieces: tuple[list[dict[str, Any]], ...] = ()


@dataclass(eq=False)
class NodeFailed(Exception):
    """An attempt ended without a whole answer. `answer` is set where the customer's request itself was at fault."""

    outcome: str
    code: str
    verdict: Verdict
    answer: ApiError | None = None
    backoff_s: float = 0.5
    is_final: bool = False
    ending: Ending | None = None
    facts: dict[str, int | str] = field(default_factory=dict)

    @property
    def is_disputed(self) -> bool:
        """Whether the node blames the request: its breaker hears of it only when another node serves the request."""
        return self.code in {_REFUSED, CONTEXT} or self.code.startswith(f"{_ENGINE_STATUS}_4")

    @property
    def rule(self) -> str:
        """Return the rule of the failure catalogue that this is evidence against; empty where it is none."""
        if self.code.startswith(_ENGINE_STATUS):
            return "engine_error"
        return _RULES.get(self.code, "")

    def for_customer(self) -> ApiError:
        """Return what the customer is told when no other node can help."""
        if self.answer is not None:
            return self.answer
        if self.outcome == BUSY:
            message = f"The model's nodes are busy ({self.code}); nothing was charged. Retry."
            return unavailable("no_capacity", message, retry_after_s=max(clamped(self.backoff_s), _SOONEST_RETRY_S))
        if self.outcome == TIMEOUT:
            what = _STAGES.get(self.code, "The node did not answer in time")
            return node_failed(is_timeout=True, message=f"{what} ({self.code}); nothing was charged.")
        message = f"The node failed ({self.code}); nothing was charged."
        return node_failed(is_timeout=False, message=message)


def tunnel_lost() -> NodeFailed:
    """The tunnel closed: the loss of the tunnel itself keeps the node from being chosen, its breaker is not needed."""
    return NodeFailed(FAULT, "tunnel_lost", Verdict.NEUTRAL)


def silent(stage: str, **facts: int | str) -> NodeFailed:
    """The stage's deadline passed: `first_token`, `idle`, `answer` (nothing came) or `total` (it came too slowly)."""
    return NodeFailed(TIMEOUT, f"timeout_{stage}", Verdict.FAULT, facts=facts)


def broke(code: str, **facts: int | str) -> NodeFailed:
    """The node sent what no honest engine sends; `facts` are sizes, counts and names, never a customer's text."""
    return NodeFailed(FAULT, code, Verdict.FAULT, facts=facts)


def empty(ending: Ending) -> NodeFailed:
    """The answer ended properly but without text: another node may do better; if none does, it was the answer."""
    return NodeFailed(EMPTY, "empty_output", Verdict.NEUTRAL, ending=ending)


def body_too_large(size: int | None, *, most: int) -> ApiError:
    """Return 413: the request is larger than nodes take, or than this node's older agent does."""
    has = "The request" if size is None else f"The request has {size} bytes as it goes to a node; it"
    return ApiError(413, INVALID_REQUEST, "request_too_large", f"{has} is too large: at most {most} bytes.")


def from_agent(code: str) -> NodeFailed:
    """The agent's FAIL frame."""
    if code == "body_too_large":
        return NodeFailed(CUSTOMER, code, Verdict.NEUTRAL, answer=body_too_large(None, most=frames.PLAIN_BODY_BYTES))
    if code in _BUSY_CODES:
        return NodeFailed(BUSY, code, Verdict.BACKPRESSURE)
    if code in _NEUTRAL_CODES:
        return NodeFailed(FAULT, code, Verdict.NEUTRAL)
    if code == "engine_timeout":
        return NodeFailed(TIMEOUT, code, Verdict.FAULT)
    known = code if re.fullmatch(r"[a-z_]{1,40}", code) else "agent_failed"
    return NodeFailed(FAULT, known, Verdict.FAULT)


def from_engine(status: int, body: bytes, *, retry_after_s: float | None = None) -> NodeFailed:
    """The engine's own error answer (status ≥ 400). What it says of the request is neutral for its breaker."""
    if status in {429, 503}:
        backoff_s = _BUSY_BACKOFF_S if retry_after_s is None else clamped(retry_after_s)
        return NodeFailed(BUSY, "engine_busy", Verdict.BACKPRESSURE, backoff_s=backoff_s)
    if status in {400, 413, 422}:
        return _customers_fault(_text(body))
    if not 400 <= status <= 599:  # noqa: PLR2004  HTTP's error range
        return NodeFailed(FAULT, _ENGINE_STATUS, Verdict.FAULT)
    verdict = Verdict.NEUTRAL if status < 500 else Verdict.FAULT  # noqa: PLR2004  HTTP's server errors
    return NodeFailed(FAULT, f"{_ENGINE_STATUS}_{status}", verdict)


def _customers_fault(text: str) -> NodeFailed:
    if _CONTEXT.search(text):
        message = "The prompt is longer than the model's context. Shorten the messages or choose another model."
        answer = ApiError(400, INVALID_REQUEST, CONTEXT, message, param="messages")
        return NodeFailed(CUSTOMER, CONTEXT, Verdict.NEUTRAL, answer=answer, is_final=True)
    answer = invalid("The model's engine refused the request's values; check schemas, tools and token ids.")
    return NodeFailed(CUSTOMER, _REFUSED, Verdict.NEUTRAL, answer=answer)


def _text(body: bytes) -> str:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    if isinstance(value, dict):
        error = value.get("error", value.get("detail", ""))
        return str(error.get("message", "")) if isinstance(error, dict) else str(error)
    return ""
