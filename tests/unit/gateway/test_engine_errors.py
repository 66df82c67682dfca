"""What an engine's error says of the request and of the node; `vllm_errors.json` has vLLM 0.32's own answers."""

import json
from pathlib import Path

import pytest

from portal.gateway import failures
from portal.gateway.breaker import Verdict
from portal.gateway.failures import NodeFailed

ERRORS = json.loads((Path(__file__).parent / "vllm_errors.json").read_text(encoding="utf-8"))

CUSTOMER = ("customer_error", Verdict.NEUTRAL, True)
REFUSED = ("node_fault", Verdict.NEUTRAL, True)
BUSY = ("node_busy", Verdict.BACKPRESSURE, False)
EXPECTED = {
    "bad-json-schema": ("engine_refused", *CUSTOMER),
    "logit-bias-range": ("engine_refused", *CUSTOMER),
    "token-id-out-of-range": ("engine_refused", *CUSTOMER),
    "tools-without-parser": ("engine_refused", *CUSTOMER),
    "invalid-utf8": ("engine_refused", *CUSTOMER),
    "context-too-long": ("context_length_exceeded", *CUSTOMER),
    "context-slightly-too-long": ("context_length_exceeded", *CUSTOMER),
    "max-tokens-too-large": ("context_length_exceeded", *CUSTOMER),
    "not-found": ("engine_status_404", *REFUSED),
    "unknown-model": ("engine_status_404", *REFUSED),
    "method": ("engine_status_405", *REFUSED),
    "auth-wrong": ("engine_status_401", *REFUSED),
    "overload": ("engine_busy", *BUSY),
    "n-huge": ("engine_busy", *BUSY),
}


def _failure(name: str) -> NodeFailed:
    error = ERRORS[name]
    return failures.from_engine(error["status"], error["body"].encode())


def test_all_recorded_errors_are_expected() -> None:
    assert EXPECTED.keys() == ERRORS.keys()


@pytest.mark.parametrize("name", EXPECTED)
def test_each_shape_of_error_is_understood(name: str) -> None:
    failure = _failure(name)

    assert (failure.code, failure.outcome, failure.verdict, failure.is_disputed) == EXPECTED[name]


@pytest.mark.parametrize("name", EXPECTED)
def test_no_word_of_the_engine_reaches_the_customer(name: str) -> None:
    body = json.loads(ERRORS[name]["body"])
    error = body.get("error", body.get("detail"))
    text = error["message"] if isinstance(error, dict) else error

    told = _failure(name).for_customer()

    assert text not in told.message
    assert told.status == {"customer_error": 400, "node_fault": 502, "node_busy": 503}[_failure(name).outcome]


def test_a_dying_engines_event_is_a_fault() -> None:
    failure = failures.broke("engine_error")

    assert (failure.outcome, failure.verdict, failure.is_disputed) == ("node_fault", Verdict.FAULT, False)


def test_a_busy_engines_time_is_honoured_and_clamped() -> None:  # litellm#34399
    said = {None: 1.0, 0.0: 0.0, 2.5: 2.5, 3_600.0: 5.0}

    for retry_after_s, backoff_s in said.items():
        assert failures.from_engine(503, b"", retry_after_s=retry_after_s).backoff_s == backoff_s
    told = failures.from_engine(429, b"", retry_after_s=2.5).for_customer()

    assert (told.status, told.code, told.retry_after_s) == (503, "no_capacity", 2.5)
