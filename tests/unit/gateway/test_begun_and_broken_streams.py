"""An answer that breaks: before its first text nobody has heard of it, after it nobody takes it for a whole one."""

import pytest

from portal.gateway.failures import NodeFailed
from tests.unit.gateway.relaying import Relayed, delta

ROLE = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}
BROKEN = {"error": {"message": "EngineCore encountered an issue.", "type": "InternalServerError", "code": 500}}


async def _begun() -> Relayed:
    relayed = await Relayed(stream=True).begin()
    relayed.head()
    relayed.event(ROLE)
    return relayed


async def _failure(relayed: Relayed) -> NodeFailed:
    with pytest.raises(NodeFailed) as failure:
        await relayed.finish()
    return failure.value


# bifrost#5395, litellm#32835
async def test_an_error_after_the_first_lifecycle_chunk_can_fail_over() -> None:
    relayed = await _begun()

    relayed.event(BROKEN)
    relayed.end()
    await _failure(relayed)

    assert relayed.customer.written == []
    assert relayed.attempt.first_token_at is None


# litellm#38610
async def test_what_was_delivered_once_is_not_held_back_for_another_node() -> None:
    relayed = await _begun()
    relayed.event(delta("Hello"))
    await relayed.until(lambda: "Hello" in relayed.customer.text)

    relayed.event(BROKEN)
    relayed.end()
    await _failure(relayed)

    assert relayed.attempt.first_token_at is not None
    assert relayed.customer.text.count("Hello") == 1


# preloop#117, OmniRoute#8210
@pytest.mark.parametrize("reason", [None, "stop"])
async def test_a_stream_that_ends_without_done_is_no_success(reason: str | None) -> None:
    relayed = await _begun()
    relayed.event(delta("Half an answer"))
    if reason is not None:
        relayed.event(delta("", reason=reason))
    relayed.end()

    failure = await _failure(relayed)
    error = failure.for_customer()
    await relayed.customer.exchange.end_in_band(error)

    assert (failure.code, relayed.settled) == ("stream_truncated", 0)
    assert '"code":"node_error"' in relayed.customer.text
    assert "[DONE]" not in relayed.customer.text
    assert relayed.customer.has_whole_answer
