"""The field table of embeddings: what reaches a node, what is refused, and what bounds inputs and answer."""

from typing import Any

import pytest

from portal.gateway.errors import ApiError
from portal.gateway.fields import embeddings
from portal.gateway.fields.asked import Asked
from tests.factories.gateway import model_entry


def _model(**values: Any) -> Any:
    defaults: dict[str, Any] = {
        "public_id": "acme/embed",
        "task": "embedding",
        "embedding_dimensions": 384,
        "message_overhead_bytes": None,
        "request_overhead_bytes": 2,
        "context_tokens": 512,
        "supported_parameters": frozenset({"dimensions"}),
    }
    return model_entry(**defaults | values)


def _check(**fields: Any) -> Asked:
    return embeddings.check({"input": "hello"} | fields, _model())


def _refusal(**fields: Any) -> tuple[str, str | None]:
    with pytest.raises(ApiError) as refusal:
        _check(**fields)
    assert refusal.value.status == 400
    return refusal.value.code, refusal.value.param


def test_a_text_goes_to_the_node_with_nothing_that_was_not_sent() -> None:
    checked = _check(user="u")

    assert checked.body == {"model": "acme/embed", "input": "hello"}
    assert (checked.prompt_bytes, checked.prompts, checked.output_tokens) == (5 + 2, 1, 0)
    assert not checked.is_cached
    assert checked.opening == []


# litellm's incident with vLLM of February 2026: `encoding_format: null` was sent on, and every embedding failed
def test_an_encoding_format_of_null_is_not_sent_on() -> None:
    assert "encoding_format" not in _check(encoding_format=None).body
    assert _check(encoding_format="base64").body["encoding_format"] == "base64"


@pytest.mark.parametrize(
    ("given", "prompts", "tokens"),
    [(["ab", "c"], 2, 3 + 4), ([5, 6], 1, 2), ([[5, 6], [7]], 2, 3)],
)
def test_inputs_of_all_forms_are_bounded(given: Any, prompts: int, tokens: int) -> None:
    checked = _check(input=given)

    assert (checked.prompts, checked.choices, checked.prompt_bytes) == (prompts, prompts, tokens)


def test_where_bytes_bound_nothing_texts_must_be_counted() -> None:
    assert embeddings.check({"input": "x"}, _model(request_overhead_bytes=None)).prompt_bytes is None


def test_fewer_dimensions_where_the_model_has_them() -> None:
    checked = _check(dimensions=8)
    assert checked.body["dimensions"] == 8
    assert embeddings.vector_length(checked, _model()) == 8
    assert "dimensions" not in _check(dimensions=384).body, "the whole length is what the engine does anyway"
    assert embeddings.vector_length(_check(), _model()) == 384

    with pytest.raises(ApiError) as refusal:
        embeddings.check({"input": "x", "dimensions": 8}, _model(supported_parameters=frozenset()))
    assert (refusal.value.code, refusal.value.param) == ("unsupported_parameter", "dimensions")


@pytest.mark.parametrize(
    ("fields", "code", "param"),
    [
        ({"input": None}, "invalid_value", "input"),
        ({"input": ""}, "invalid_value", "input"),
        ({"input": []}, "invalid_value", "input"),
        ({"input": ["a", ""]}, "invalid_value", "input[1]"),
        ({"input": {"a": 1}}, "invalid_value", "input"),
        ({"input": ["a"] * 2_049}, "invalid_value", "input"),
        ({"input": [1] * 512}, "context_length_exceeded", "input"),
        ({"encoding_format": "hex"}, "invalid_value", "encoding_format"),
        ({"encoding_format": 5}, "invalid_value", "encoding_format"),
        ({"dimensions": 385}, "invalid_value", "dimensions"),
        ({"dimensions": 0}, "invalid_value", "dimensions"),
        ({"truncate_prompt_tokens": 5}, "unsupported_parameter", "truncate_prompt_tokens"),
        ({"cache_salt": "x"}, "unsupported_parameter", "cache_salt"),
        ({"api_key": "x"}, "invalid_value", "api_key"),
    ],
)
def test_wrong_values_are_named(fields: dict[str, Any], code: str, param: str) -> None:
    assert _refusal(**fields) == (code, param)


def test_an_answer_too_large_to_hold_is_refused_beforehand() -> None:
    wide = _model(embedding_dimensions=8_192)
    with pytest.raises(ApiError) as refusal:
        embeddings.check({"input": ["a"] * 200}, wide)

    assert "at most 157 with vectors of 8192" in refusal.value.message


def test_unknown_fields_are_named_and_dropped() -> None:
    checked = _check(temperature=1, frobnicate=1)

    assert checked.ignored == ("temperature", "frobnicate")
    assert checked.body.keys() == {"model", "input"}
