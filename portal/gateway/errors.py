"""The errors of the API: each a status, a type, a stable code and a message that says what to do."""

from typing import Any, Final

import orjson

from portal.core.errors import DomainError

INVALID_REQUEST: Final = "invalid_request_error"
AUTHENTICATION: Final = "authentication_error"
QUOTA: Final = "insufficient_quota"
PERMISSION: Final = "permission_error"
RATE_LIMIT: Final = "rate_limit_error"
NODE: Final = "node_error"
UNAVAILABLE: Final = "service_unavailable"
INTERNAL: Final = "internal_error"

Headers = tuple[tuple[bytes, bytes], ...]

# Codes that lower rooms and the credit book raise by name: the status, type and code of the answer each becomes.
_DOMAIN: Final[dict[str, tuple[int, str, str]]] = {
    "credit_balance_exhausted": (402, QUOTA, "credit_balance_exhausted"),
    "credit_held": (402, QUOTA, "credit_held"),
    "key_budget_exhausted": (402, QUOTA, "key_budget_exhausted"),
    "billing_unavailable": (503, UNAVAILABLE, "billing_unavailable"),
    "rendering_refused": (400, INVALID_REQUEST, "invalid_value"),
}
_RETRY_AFTER_S: Final = 2.0


class ApiError(Exception):
    """An answer of the error table."""

    def __init__(
        self,
        status: int,
        kind: str,
        code: str,
        message: str,
        *,
        param: str | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.code = code
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s

    @property
    def headers(self) -> Headers:
        """Return the headers that belong to the error."""
        if self.retry_after_s is None:
            return ()
        milliseconds = max(1, round(self.retry_after_s * 1000))
        seconds = -(-milliseconds // 1000)
        return ((b"retry-after", b"%d" % seconds), (b"retry-after-ms", b"%d" % milliseconds))

    def body(self) -> dict[str, Any]:
        """Return the answer in OpenAI's shape."""
        fields = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": fields}

    def encoded(self) -> bytes:
        """Return the answer as JSON."""
        return orjson.dumps(self.body())


def invalid(message: str, *, param: str | None = None) -> ApiError:
    """Return 400 invalid_value."""
    return ApiError(400, INVALID_REQUEST, "invalid_value", message, param=param)


def unsupported(message: str, *, param: str | None = None) -> ApiError:
    """Return 400 unsupported_parameter."""
    return ApiError(400, INVALID_REQUEST, "unsupported_parameter", message, param=param)


def too_long(prompt_tokens: int, context_tokens: int, *, param: str = "messages") -> ApiError:
    """Return 400 context_length_exceeded with the two numbers."""
    message = (
        f"This model's context is {context_tokens} tokens; the prompt has {prompt_tokens}, which leaves no room for an "
        "answer. Shorten it or choose a model with a longer context."
    )
    return ApiError(400, INVALID_REQUEST, "context_length_exceeded", message, param=param)


def unavailable(code: str, message: str, *, retry_after_s: float = _RETRY_AFTER_S) -> ApiError:
    """Return 503 with the time after which a retry makes sense."""
    return ApiError(503, UNAVAILABLE, code, message, retry_after_s=retry_after_s)


def node_failed(*, is_timeout: bool, message: str) -> ApiError:
    """Return 502 node_error or 504 node_timeout."""
    if is_timeout:
        return ApiError(504, NODE, "node_timeout", message)
    return ApiError(502, NODE, "node_error", message)


def from_domain(error: DomainError) -> ApiError:
    """Map a named refusal of a lower room to its answer; an unmapped one is ours to fix and reads as 500."""
    known = _DOMAIN.get(error.code)
    if known is None:
        return internal()
    status, kind, code = known
    retry_after_s = _RETRY_AFTER_S if status == 503 else None  # noqa: PLR2004  an HTTP status
    return ApiError(status, kind, code, error.sentences, param=error.param, retry_after_s=retry_after_s)


def internal() -> ApiError:
    """Return 500: a fault of ours, with nothing of its inside."""
    return ApiError(500, INTERNAL, "internal_error", "The gateway failed; nothing was charged. Retry, then report it.")
