"""What engines and other gateways got wrong in public, with the value that is right here."""

from typing import Any

import orjson
import pytest

from portal.billing.rules import settling
from portal.billing.rules.settling import Agreed, Observed
from portal.gateway import rewrite
from portal.gateway.contracts import Claim
from portal.gateway.dialects.base import Names
from portal.gateway.dialects.chat import ChatDialect
from portal.gateway.dialects.completions import CompletionsDialect
from portal.gateway.fields import chat, completions
from portal.gateway.tunnel import frames
from tests.factories.gateway import model_entry, price_entry
from tests.unit.gateway.relaying import Relayed, delta

NAMES = Names(answer_id="x", created=1, model="m", choices=1, has_logprobs=False)
AGREED = Agreed(
    price=price_entry(),
    share_bps=8_000,
    hold_nano=10**12,
    prompt_bound=1_000,
    output_bound=1_000,
    has_tolerance=True,
)


def _bill(**observed: Any) -> settling.Bill:
    defaults: dict[str, Any] = {
        "claimed_prompt": 100,
        "claimed_cached": None,
        "claimed_completion": 10,
        "counted_prompt": 100,
        "counted_completion": 10,
        "end_tokens": 0,
        "delivered_bytes": 40,
    }
    return settling.settle(outcome="completed", agreed=AGREED, observed=Observed(**defaults | observed))


# vllm-ascend#9030, vllm-ascend#9911
@pytest.mark.parametrize("details", [None, {}, {"cached_tokens": None}])
def test_cached_tokens_that_nobody_states_are_unknown_and_priced_as_uncached(details: Any) -> None:
    claim = Claim()
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": details}

    rewrite.take_claim({"usage": usage}, claim)

    assert claim.cached is None
    bill = _bill(claimed_cached=claim.cached)
    assert (bill.cached_tokens, bill.charge_nano) == (0, 100 * 1_000 + 10 * 2_000)


# vllm-ascend#8910, vllm#17519, vllm#36752, LMCache#3269
def test_cached_tokens_never_exceed_the_prompt() -> None:
    bill = _bill(claimed_cached=1_600)

    assert bill.cached_tokens == 100
    assert bill.charge_nano == 100 * 500 + 10 * 2_000


# vllm#28266
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_the_maximum_is_one_cap_on_all_that_is_generated(name: str) -> None:
    asked = chat.check({"messages": [{"role": "user", "content": "Hi"}], name: 7}, model_entry())
    text = completions.check({"prompt": "Hi", name: 7}, model_entry(tokenizer_sha256="a"))

    for found in (asked, text):
        assert found.body["max_tokens"] == found.output_tokens == 7
        assert "max_completion_tokens" not in found.body


# gateway-api-inference-extension#1626, gateway-api-inference-extension#2026
# higress#1080: settled once, at the end
async def test_usage_and_the_end_in_frames_of_their_own_are_one_settled_stream() -> None:
    relayed = await Relayed(stream=True, stream_options={"include_usage": True}).begin()
    relayed.head()
    relayed.event(delta("Hello"))
    relayed.event(delta("", reason="stop"))
    usage = b"data: " + orjson.dumps({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}}) + b"\n\n"
    for cut in (usage[:30], usage[30:-1], usage[-1:], b"data: [DO", b"NE]\n", b"\n"):
        relayed.write(cut)
    relayed.end()

    await relayed.finish()

    assert (relayed.attempt.claim.prompt, relayed.attempt.claim.completion) == (5, 3)
    assert relayed.settled == 1
    assert relayed.customer.text.endswith("data: [DONE]\n\n")


# litellm#25624, freelens#273, llama.cpp#20269
async def test_no_header_of_a_node_reaches_the_customer() -> None:
    relayed = await Relayed().begin()
    head = {
        "status": 200,
        "content_type": "application/json",
        "headers": {"content-length": "7", "content-encoding": "gzip", "transfer-encoding": "chunked"},
    }
    relayed.frame(frames.HEAD, orjson.dumps(head))
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hello"}, "finish_reason": "stop"}
    relayed.write(orjson.dumps({"choices": [choice]}))
    relayed.end()

    await relayed.finish()

    (start,) = [message for message in relayed.customer.written if message["type"] == "http.response.start"]
    lines = dict(start["headers"])
    assert not {b"content-encoding", b"transfer-encoding"} & lines.keys()
    assert int(lines[b"content-length"]) == len(relayed.customer.text.encode())


# llmgateway#2334, Floway#498: a comment and a blank line crash openai's Python client
@pytest.mark.parametrize("dialect", [ChatDialect, CompletionsDialect])
def test_keep_alive_is_a_comment_without_a_blank_line(dialect: Any) -> None:
    assert dialect(NAMES, currency="usd", wants_usage=False).ping() == b": ping\n"
