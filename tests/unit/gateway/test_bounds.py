"""The upper bound of prompts: by bytes where they bound tokens, else rendered or counted, never guessed."""

from collections.abc import Mapping
from typing import Any

import pytest

from portal.gateway import bounds
from portal.gateway.contracts import ModelEntry
from portal.gateway.errors import ApiError
from portal.gateway.fields import chat, completions, embeddings
from tests.factories.gateway import model_entry, price_entry

VECTORS: dict[str, Any] = {"task": "embedding", "embedding_dimensions": 8, "request_overhead_bytes": None}


class Measure:
    """Renders and counts as it is told."""

    def __init__(self, *, rendered: int | None = None, counted: int | None = None) -> None:
        self.rendered = rendered
        self.counted = counted
        self.calls: list[str] = []

    async def rendered_bytes(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        self.calls.append("rendered")
        return self.rendered

    async def prompt_tokens(self, model: ModelEntry, body: Mapping[str, Any]) -> int | None:
        self.calls.append("counted")
        return self.counted


async def test_several_prompts_are_bounded_together_and_their_choices_multiply() -> None:
    model = model_entry(tokenizer_sha256="a", context_tokens=100, max_output_tokens=50)
    measure = Measure()

    asked = completions.check({"prompt": ["x" * 90, "y" * 300], "n": 3, "max_tokens": 20}, model)
    bound = await bounds.of(asked, model=model, measure=measure)

    assert (bound.prompt_tokens, bound.output_tokens) == (2 * 100, 2 * 3 * 20)
    assert bound.nano(price_entry()) == 200 * 1_000 + 120 * 2_000
    assert measure.calls == []


async def test_token_ids_are_bounded_by_their_number() -> None:
    model = model_entry(tokenizer_sha256=None)

    bound = await bounds.of(completions.check({"prompt": [1, 2, 3]}, model), model=model, measure=Measure())

    assert (bound.prompt_tokens, bound.output_tokens) == (3, 256)


async def test_texts_that_bytes_do_not_bound_are_counted() -> None:
    model = model_entry(tokenizer_sha256="a", **VECTORS)
    measure = Measure(counted=7)

    bound = await bounds.of(embeddings.check({"input": "hello"}, model), model=model, measure=measure)

    assert (bound.prompt_tokens, bound.output_tokens) == (7, 0)
    assert measure.calls == ["counted"]


@pytest.mark.parametrize(
    ("model", "status", "code"),
    [
        (model_entry(tokenizer_sha256=None, **VECTORS), 400, "unboundable_request"),
        (model_entry(tokenizer_sha256="a", **VECTORS), 503, "no_capacity"),
    ],
)
async def test_what_cannot_be_bounded_is_not_served(model: ModelEntry, status: int, code: str) -> None:
    with pytest.raises(ApiError) as refusal:
        await bounds.of(embeddings.check({"input": "hello"}, model), model=model, measure=Measure())

    assert (refusal.value.status, refusal.value.code) == (status, code)


async def test_a_chat_without_a_template_is_told_what_to_send() -> None:
    model = model_entry(message_overhead_bytes=None)
    asked = chat.check({"messages": [{"role": "user", "content": "Hi"}]}, model)

    with pytest.raises(ApiError) as refusal:
        await bounds.of(asked, model=model, measure=Measure())

    assert refusal.value.code == "unboundable_request"
    assert "Send plain text messages without tools" in refusal.value.message


async def test_a_prompt_as_long_as_the_context_is_refused_in_its_own_words() -> None:
    model = model_entry(tokenizer_sha256="a", context_tokens=50, max_output_tokens=10)
    asked = completions.check({"prompt": "x" * 60}, model)

    with pytest.raises(ApiError) as refusal:
        await bounds.of(asked, model=model, measure=Measure(counted=50))
    assert (refusal.value.code, refusal.value.param) == ("context_length_exceeded", "prompt")
    assert (await bounds.of(asked, model=model, measure=Measure(counted=49))).prompt_tokens == 50
