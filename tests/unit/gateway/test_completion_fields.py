"""The field table of text completions: what reaches a node, what is refused, and what bounds the prompts."""

from typing import Any

import pytest

from portal.gateway.errors import ApiError
from portal.gateway.fields import completions, sampling
from portal.gateway.fields.asked import Asked
from tests.factories.gateway import model_entry

MODEL = model_entry(tokenizer_sha256="a" * 64)


def _check(**fields: Any) -> Asked:
    return completions.check({"prompt": "Once upon"} | fields, MODEL)


def _refusal(**fields: Any) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as refusal:
        _check(**fields)
    assert refusal.value.status == 400
    return refusal.value.code, refusal.value.param


def test_a_plain_prompt_gets_the_models_default_maximum() -> None:
    checked = _check()

    assert checked.body == {"model": "acme/chat-8b", "prompt": "Once upon", "max_tokens": 256}
    assert (checked.choices, checked.prompts, checked.is_stream, checked.wants_usage) == (1, 1, False, False)
    assert checked.opening == [{"content": "Once upon"}]


@pytest.mark.parametrize(
    ("prompt", "prompts", "tokens"),
    [
        ("Grüße", 1, 7 + 8),
        (["ab", "cde"], 2, 5 + 16),
        ([5, 6, 7], 1, 3),
        ([[5, 6], [7]], 2, 3),
    ],
)
def test_texts_are_bounded_by_bytes_and_ids_by_their_number(prompt: Any, prompts: int, tokens: int) -> None:
    checked = _check(prompt=prompt, n=3)

    assert checked.body["prompt"] == prompt
    assert (checked.prompts, checked.prompt_bytes, checked.choices) == (prompts, tokens, prompts * 3)


def test_without_a_tokenizer_a_text_must_be_counted() -> None:
    assert completions.check({"prompt": "x"}, model_entry(tokenizer_sha256=None)).prompt_bytes is None
    assert completions.check({"prompt": [1, 2]}, model_entry(tokenizer_sha256=None)).prompt_bytes == 2


@pytest.mark.parametrize(
    ("prompt", "param"),
    [
        (None, "prompt"),
        ("", "prompt"),
        (5, "prompt"),
        ({}, "prompt"),
        ([], "prompt"),
        ([""], "prompt[0]"),
        (["a", 5], "prompt[1]"),
        (["a", ["b"]], "prompt[1]"),
        ([[1], []], "prompt[1]"),
        ([[1], "a"], "prompt[1]"),
        ([1, "a"], "prompt"),
        ([1, True], "prompt"),
        ([1, -1], "prompt"),
        ([1, 2**31], "prompt"),
        ([True], "prompt[0]"),
        (["a"] * 129, "prompt"),
        ([[1]] * 129, "prompt"),
    ],
)
def test_prompts_of_no_known_form_are_named(prompt: Any, param: str) -> None:
    assert _refusal(prompt=prompt) == ("invalid_value", param)


def test_more_ids_than_the_context_holds() -> None:
    assert _refusal(prompt=[1] * 4_096) == ("context_length_exceeded", "prompt")
    assert _refusal(prompt=[[1], [1] * 4_096]) == ("context_length_exceeded", "prompt[1]")


@pytest.mark.parametrize(
    "fields",
    [{"echo": True}, {"echo": True, "logprobs": 1}, {"suffix": "end"}, {"best_of": 3}, {"best_of": 3, "n": 2}],
)
def test_what_would_cost_unseen_tokens_is_not_offered(fields: dict[str, Any]) -> None:
    code, param = _refusal(**fields)

    assert code == "unsupported_parameter"
    assert param in {"echo", "suffix", "best_of"}


def test_what_says_nothing_is_taken_and_goes_no_further() -> None:
    checked = _check(echo=False, suffix=None, best_of=2, n=2, user="u", logprobs=None)

    assert checked.body == {"model": "acme/chat-8b", "prompt": "Once upon", "n": 2, "max_tokens": 256}
    assert checked.ignored == ()


@pytest.mark.parametrize("logprobs", [0, 5])
def test_log_probabilities_up_to_five(logprobs: int) -> None:
    checked = _check(logprobs=logprobs)

    assert (checked.logprobs, checked.body["logprobs"]) == (logprobs, logprobs)


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"logprobs": 6}, "logprobs"),
        ({"logprobs": True}, "logprobs"),
        ({"n": 9}, "n"),
        ({"n": 0}, "n"),
        ({"temperature": 3}, "temperature"),
        ({"stop": ["a"] * 5}, "stop"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"stream": "yes"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"messages": []}, "messages"),
        ({"tools": []}, "tools"),
    ],
)
def test_wrong_values_are_named(fields: dict[str, Any], param: str) -> None:
    assert _refusal(**fields) == ("invalid_value", param)


@pytest.mark.parametrize("field", sorted(sampling.ENGINE_REACHING - {"best_of", "echo"}))
def test_engine_fields_are_refused(field: str) -> None:
    assert _refusal(**{field: 1}) == ("unsupported_parameter", field)


def test_unknown_fields_are_named_and_dropped() -> None:
    checked = _check(frobnicate=1, min_p=0.1, top_k=5)

    assert checked.ignored == ("frobnicate", "min_p")
    assert checked.body["top_k"] == 5
