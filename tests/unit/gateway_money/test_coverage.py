"""What is held before a request begins: all that a whole answer can cost; of a long stream the first tokens."""

import asyncio

import pytest

from portal.core import ids
from portal.gateway import bounds
from portal.gateway.bounds import Bound
from portal.gateway.coverage import HELD_TOKENS, held_first
from portal.gateway.dialects.base import Stamp
from portal.gateway.endpoints.chat import ChatEndpoint
from portal.gateway.tokens import TokenCounters
from tests.factories.gateway import model_entry

LONG = Bound(prompt_tokens=1_000, output_tokens=100_000)


@pytest.mark.parametrize(
    ("bound", "choices", "is_stream", "held"),
    [
        (LONG, 1, False, 100_000),
        (LONG, 1, True, HELD_TOKENS),
        (LONG, 3, True, 3 * HELD_TOKENS),
        (Bound(1_000, HELD_TOKENS), 1, True, HELD_TOKENS),
        (Bound(1_000, 200), 1, True, 200),
    ],
)
def test_a_long_stream_is_held_for_its_first_tokens_only(bound, choices, is_stream, held):
    assert held_first(bound, choices=choices, is_stream=is_stream) == Bound(1_000, held)


# one-api#1312: without max_tokens nothing of the prompt was reserved
def test_a_request_without_a_maximum_is_held_for_its_prompt_and_the_models_default():
    model = model_entry(default_output_tokens=256, message_overhead_bytes=40, request_overhead_bytes=30)
    raw = {"model": model.public_id, "messages": [{"role": "user", "content": "x" * 1_000}]}
    asked = ChatEndpoint().translate(raw, model, Stamp(ids.uuid7(), 0, "usd")).asked

    bound = asyncio.run(bounds.of(asked, model=model, measure=TokenCounters()))

    assert bound == Bound(prompt_tokens=1_070, output_tokens=256)
    assert held_first(bound, choices=1, is_stream=False).nano(model.prices[0]) == 1_070 * 1_000 + 256 * 2_000
