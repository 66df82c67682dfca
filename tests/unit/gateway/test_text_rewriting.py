"""A node's text completions and embeddings are rebuilt; what no honest engine sends is the node's fault."""

import base64
import struct
from pathlib import Path
from typing import Any

import orjson
import pytest

from portal.gateway import rewrite, rewrite_texts, rewrite_vectors, sse
from portal.gateway.contracts import Claim, Settled
from portal.gateway.dialects.base import Names
from portal.gateway.dialects.completions import CompletionsDialect
from portal.gateway.dialects.embeddings import EmbeddingsDialect
from portal.gateway.failures import NodeFailed

RECORDED = Path(__file__).parents[2] / "fakes" / "vllm"
SETTLED = Settled("completed", 10, 4, 5, "claim", 1_234_567, 1_000_000)
TOP = {"a": -0.1, "b": -2.0}
LOGPROBS = {"tokens": ["a"], "token_logprobs": [-0.1], "text_offset": [0], "top_logprobs": [TOP]}


def _names(**values: Any) -> Names:
    defaults: dict[str, Any] = {
        "answer_id": "cmpl-x",
        "created": 5,
        "model": "acme/chat-8b",
        "choices": 1,
        "has_logprobs": False,
    }
    return Names(**defaults | values)


def _texts(**row: Any) -> dict[str, Any]:
    return {"id": "theirs", "choices": [{"index": 0, "text": "Hi", "finish_reason": "stop", "token_ids": [1]} | row]}


def _vectors(*rows: Any) -> dict[str, Any]:
    return {"data": [{"index": index, "embedding": row, "x": 1} for index, row in enumerate(rows)]}


def _recorded(name: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads((RECORDED / f"{name}.json").read_bytes())["response"]["json"]
    return found


def test_a_whole_text_keeps_its_words_and_loses_what_is_the_engines() -> None:
    found = rewrite_texts.answer(_texts(stop_reason=7), _names())

    dialect = CompletionsDialect(_names(), currency="usd", wants_usage=False)
    assert (found.texts, found.finished) == ([(0, "Hi")], 1)
    assert dialect.whole(found.choices, SETTLED) == {
        "id": "cmpl-x",
        "object": "text_completion",
        "created": 5,
        "model": "acme/chat-8b",
        "choices": [{"index": 0, "text": "Hi", "logprobs": None, "finish_reason": "stop"}],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 5,
            "total_tokens": 15,
            "prompt_tokens_details": {"cached_tokens": 4},
            "cost": "0.001234567",
            "currency": "usd",
        },
    }


@pytest.mark.parametrize(("name", "choices"), [("completions-basic", 1), ("completions-two-prompts", 2)])
def test_a_real_engines_answer_is_understood(name: str, choices: int) -> None:
    value = _recorded(f"chat/{name}")
    claim = Claim()

    found = rewrite_texts.answer(value, _names(choices=choices))
    rewrite.take_claim(value, claim)

    assert [row["text"] for row in found.choices] == [row["text"] for row in value["choices"]]
    assert (claim.prompt, claim.completion) == (value["usage"]["prompt_tokens"], value["usage"]["completion_tokens"])


def test_a_real_engines_stream_is_understood() -> None:
    splitter, claim = sse.EventSplitter(), Claim()
    events = splitter.feed((RECORDED / "chat" / "completions-stream-usage.sse").read_bytes())
    texts: list[tuple[int, str]] = []

    for data in events[:-1]:
        value = rewrite.parse(data)
        rewrite.take_event_claim(value, claim)
        texts += rewrite_texts.chunk(value, _names()).texts

    assert events[-1] == sse.DONE
    assert texts == [(0, ".")]
    assert (claim.prompt, claim.completion, claim.cached) == (3, 2, 0)


def test_choices_come_in_their_order_whatever_the_nodes_was() -> None:
    rows = [_texts(index=index, text=str(index))["choices"][0] for index in (2, 0, 1)]

    found = rewrite_texts.answer({"choices": rows}, _names(choices=3))

    assert [row["index"] for row in found.choices] == [0, 1, 2]


def test_log_probabilities_only_where_they_were_asked() -> None:
    value = _texts(logprobs=LOGPROBS | {"secret": "x"})

    assert rewrite_texts.answer(value, _names()).choices[0]["logprobs"] is None
    assert rewrite_texts.answer(value, _names(has_logprobs=True)).choices[0]["logprobs"] == LOGPROBS


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"choices": {}},
        {"choices": ["x"]},
        {"choices": []},
        {"choices": [_texts()["choices"][0]] * 2},
        _texts(index=1),
        _texts(index=True),
        _texts(text=None),
        _texts(text=5),
        _texts(finish_reason=None),
        _texts(logprobs="x"),
        _texts(logprobs={"tokens": "a"}),
        _texts(logprobs=LOGPROBS | {"tokens": ["x" * 2_000]}),
        _texts(logprobs=LOGPROBS | {"token_logprobs": [-1, -2]}),
        _texts(logprobs=LOGPROBS | {"token_logprobs": ["x"]}),
        _texts(logprobs=LOGPROBS | {"text_offset": [-1]}),
        _texts(logprobs=LOGPROBS | {"top_logprobs": [{"a": "x"}]}),
        _texts(logprobs=LOGPROBS | {"top_logprobs": [dict.fromkeys("abcdefgh", -1.0)]}),
    ],
)
def test_texts_that_no_honest_engine_sends(value: dict[str, Any]) -> None:
    with pytest.raises(NodeFailed) as failure:
        rewrite_texts.answer(value, _names(has_logprobs=True))

    assert failure.value.outcome == "node_fault"


def test_vectors_are_rebuilt_in_the_order_of_the_inputs() -> None:
    value = {"data": list(reversed(_vectors([0.5, 1], [1.5, 2.5])["data"]))}
    names = _names(choices=2, vector_length=2)

    found = rewrite_vectors.answer(value, names)

    assert not found.is_empty
    assert (found.texts, found.finished) == ([], 0), "nothing is generated, so nothing can be claimed for it"
    assert EmbeddingsDialect(names, currency="usd").whole(found.choices, SETTLED) == {
        "object": "list",
        "data": [
            {"object": "embedding", "index": 0, "embedding": [0.5, 1]},
            {"object": "embedding", "index": 1, "embedding": [1.5, 2.5]},
        ],
        "model": "acme/chat-8b",
        "usage": {"prompt_tokens": 10, "total_tokens": 10, "cost": "0.001234567", "currency": "usd"},
    }


@pytest.mark.parametrize(
    ("name", "choices", "is_base64"),
    [("embeddings-one", 1, False), ("embeddings-list", 2, False), ("embeddings-base64", 1, True)],
)
def test_a_real_engines_vectors_are_understood(name: str, choices: int, is_base64: bool) -> None:
    value = _recorded(f"embed/{name}")

    found = rewrite_vectors.answer(value, _names(choices=choices, vector_length=64, is_base64=is_base64))

    assert [row["embedding"] for row in found.choices] == [row["embedding"] for row in value["data"]]


def _packed(*numbers: float) -> str:
    return base64.b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize(
    ("value", "is_base64", "code"),
    [
        ({}, False, "answer_incomplete"),
        ({"data": []}, False, "answer_incomplete"),
        (_vectors([1, 2], [1, 2]), False, "answer_incomplete"),
        ({"data": ["x"]}, False, "choice_not_an_object"),
        ({"data": [{"index": 1, "embedding": [1, 2]}]}, False, "choice_index"),
        ({"data": [{"embedding": [1, 2]}]}, False, "choice_index"),
        (_vectors([1]), False, "vector_malformed"),
        (_vectors([1, 2, 3]), False, "vector_malformed"),
        (_vectors([1, "2"]), False, "vector_malformed"),
        (_vectors([1, None]), False, "vector_malformed"),
        (_vectors([1, True]), False, "vector_malformed"),
        (_vectors(_packed(1, 2)), False, "vector_malformed"),
        (_vectors([1, 2]), True, "vector_malformed"),
        (_vectors("no base64!"), True, "vector_malformed"),
        (_vectors(_packed(1)), True, "vector_malformed"),
        (_vectors(_packed(1, float("nan"))), True, "vector_not_finite"),
        (_vectors(_packed(float("inf"), float("-inf"))), True, "vector_not_finite"),
        (_vectors([1e308, 1e308]), False, "vector_not_finite"),
    ],
)
def test_vectors_that_no_honest_engine_sends(value: dict[str, Any], is_base64: bool, code: str) -> None:
    with pytest.raises(NodeFailed) as failure:
        rewrite_vectors.answer(value, _names(vector_length=2, is_base64=is_base64))

    assert (failure.value.outcome, failure.value.code, failure.value.rule) == ("node_fault", code, "answer_malformed")


def test_vectors_in_pieces_are_no_answer() -> None:
    with pytest.raises(NodeFailed):
        rewrite_vectors.chunk(_vectors([1, 2]), _names(vector_length=2))
