"""How an attempt can fail, what that says about the node, and what the customer is told; node texts go no further."""

import re
from dataclasses import dataclass
from typing import Any, Final

import orjson

from portal.gateway.breaker import Verdict
from portal.gateway.errors import INVALID_REQUEST, ApiError, invalid, node_failed

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


@dataclass(frozen=True, slots=True)
class Ending:
    """What an answer without text came as: the events of a stream, or the choices of a whole answer."""

    events: bytes = b""
    choices: tuple[dict[str, Any], ...] = ()


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

    def for_customer(self) -> ApiError:
        """Return what the customer is told when no other node can help."""
        if self.answer is not None:
            return self.answer
        if self.outcome == TIMEOUT:
            return node_failed(is_timeout=True, message="The node did not answer in time; nothing was charged.")
        message = f"The node failed ({self.code}); nothing was charged."
        return node_failed(is_timeout=False, message=message)


def tunnel_lost() -> NodeFailed:
    """The tunnel closed: the loss of the tunnel itself keeps the node from being chosen, its breaker is not needed."""
    return NodeFailed(FAULT, "tunnel_lost", Verdict.NEUTRAL)


def silent(stage: str) -> NodeFailed:
    """No frame within the stage's deadline."""
    return NodeFailed(TIMEOUT, f"timeout_{stage}", Verdict.FAULT)


def broke(code: str) -> NodeFailed:
    """The node sent what no honest engine sends."""
    return NodeFailed(FAULT, code, Verdict.FAULT)


def empty(ending: Ending) -> NodeFailed:
    """The answer ended properly but without text: another node may do better; if none does, it was the answer."""
    return NodeFailed(EMPTY, "empty_output", Verdict.NEUTRAL, ending=ending)


def from_agent(code: str) -> NodeFailed:
    """The agent's FAIL frame."""
    if code in _BUSY_CODES:
        return NodeFailed(BUSY, code, Verdict.BACKPRESSURE)
    if code in _NEUTRAL_CODES:
        return NodeFailed(FAULT, code, Verdict.NEUTRAL)
    if code == "engine_timeout":
        return NodeFailed(TIMEOUT, code, Verdict.FAULT)
    known = code if re.fullmatch(r"[a-z_]{1,40}", code) else "agent_failed"
    return NodeFailed(FAULT, known, Verdict.FAULT)


def from_engine(status: int, body: bytes) -> NodeFailed:
    """The engine's own error answer (status ≥ 400)."""
    if status in {429, 503}:
        return NodeFailed(BUSY, "engine_busy", Verdict.BACKPRESSURE, backoff_s=1.0)
    if status in {400, 422}:
        return _customers_fault(_text(body))
    return NodeFailed(FAULT, f"engine_status_{status}" if 400 <= status <= 599 else "engine_status", Verdict.FAULT)  # noqa: PLR2004  HTTP's error range


def _customers_fault(text: str) -> NodeFailed:
    if _CONTEXT.search(text):
        message = "The prompt is longer than the model's context. Shorten the messages or choose another model."
        answer = ApiError(400, INVALID_REQUEST, "context_length_exceeded", message, param="messages")
        return NodeFailed(CUSTOMER, "context_length_exceeded", Verdict.NEUTRAL, answer=answer, is_final=True)
    # One node's word is not enough to blame the customer: another one is asked, and its word counts.
    answer = invalid("The model's engine refused the request's values; check schemas, tools and token ids.")
    return NodeFailed(CUSTOMER, "engine_refused", Verdict.NEUTRAL, answer=answer)


def _text(body: bytes) -> str:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    if isinstance(value, dict):
        error = value.get("error", value.get("detail", ""))
        return str(error.get("message", "")) if isinstance(error, dict) else str(error)
    return ""
