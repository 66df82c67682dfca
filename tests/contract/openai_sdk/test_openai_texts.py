"""The official `openai` client continues texts and makes vectors: shapes, usage, errors."""

from collections.abc import Iterator
from decimal import Decimal

import openai
import pytest

from tests.contract.openai_sdk.conftest import Served
from tests.fakes import texts
from tests.integration.gateway import embedding
from tests.integration.gateway.embedding import EMBED
from tests.integration.gateway.pool import MODEL

pytestmark = pytest.mark.django_db(transaction=True)

PROMPT = "What does a pool of GPUs do all day?"


@pytest.fixture(scope="module")
def embedder(served: Served) -> Iterator[Served]:
    node = embedding.connect(served.pool, served.gateway, texts.honest())
    with served.pool.client(served.gateway) as client:
        embedding.until_ready(client)
    yield served
    node.stop()
    served.pool.nodes.remove(node)


def test_a_text(served: Served) -> None:
    answer = served.client().completions.create(model=MODEL, prompt=PROMPT, max_tokens=20, temperature=0.5, seed=4)

    assert (answer.object, answer.model) == ("text_completion", MODEL)
    assert answer.choices[0].text
    assert answer.usage is not None
    record = served.pool.record(answer.id.removeprefix("cmpl-"))
    assert (record.prompt_tokens, record.completion_tokens) == (
        answer.usage.prompt_tokens,
        answer.usage.completion_tokens,
    )
    assert record.prompt_tokens == record.claimed_prompt_tokens == record.counted_prompt_tokens
    assert record.completion_tokens == record.claimed_completion_tokens
    assert Decimal(answer.usage.model_extra["cost"]) > 0


def test_several_prompts_and_choices_with_log_probabilities(served: Served) -> None:
    answer = served.client().completions.create(
        model=MODEL, prompt=[PROMPT, "Who pays?"], n=2, max_tokens=5, logprobs=2
    )

    assert [choice.index for choice in answer.choices] == [0, 1, 2, 3]
    for choice in answer.choices:
        assert choice.logprobs is not None
        assert "".join(choice.logprobs.tokens or []) == choice.text
        assert len(choice.logprobs.top_logprobs or []) == len(choice.logprobs.tokens or [])
    record = served.pool.record(answer.id.removeprefix("cmpl-"))
    assert record.completion_tokens == record.claimed_completion_tokens


def test_token_ids_as_a_prompt(served: Served) -> None:
    answer = served.client().completions.create(model=MODEL, prompt=[5, 6, 7], max_tokens=3)

    assert answer.usage is not None
    assert answer.usage.prompt_tokens == 3


def test_a_stream_of_text_with_usage(served: Served) -> None:
    stream = served.client().completions.create(
        model=MODEL, prompt=PROMPT, max_tokens=12, stream=True, stream_options={"include_usage": True}
    )

    chunks = list(stream)
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1])
    assert chunks[-2].choices[0].finish_reason in {"stop", "length"}
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    record = served.pool.record(chunks[0].id.removeprefix("cmpl-"))
    assert record.completion_tokens == chunks[-1].usage.completion_tokens == record.claimed_completion_tokens


def test_a_wrong_field_of_a_text_is_named(served: Served) -> None:
    with pytest.raises(openai.BadRequestError) as refusal:
        served.client().completions.create(model=MODEL, prompt=PROMPT, echo=True)

    assert (refusal.value.code, refusal.value.param) == ("unsupported_parameter", "echo")
    assert refusal.value.request_id


def test_vectors(embedder: Served) -> None:
    answer = embedder.client().embeddings.create(model=EMBED, input=["hello", "hello there"], encoding_format="float")

    assert [row.index for row in answer.data] == [0, 1]
    assert {len(row.embedding) for row in answer.data} == {texts.LENGTH}
    assert answer.usage.prompt_tokens == texts.prompt_tokens({"input": ["hello", "hello there"]})
    assert Decimal(answer.usage.model_extra["cost"]) > 0


def test_vectors_as_the_client_asks_for_them_by_default(embedder: Served) -> None:
    answer = embedder.client().embeddings.create(model=EMBED, input="hello")

    assert answer.data[0].embedding == pytest.approx([texts.LENGTH**-0.5] * texts.LENGTH, rel=1e-6)


def test_a_chat_model_makes_no_vectors(embedder: Served) -> None:
    with pytest.raises(openai.NotFoundError) as refusal:
        embedder.client().embeddings.create(model=MODEL, input="hello")

    assert refusal.value.code == "model_not_found"
    assert "/v1/chat/completions" in refusal.value.message


def test_both_models_are_listed(embedder: Served) -> None:
    assert {model.id for model in embedder.client().models.list()} == {MODEL, EMBED}
