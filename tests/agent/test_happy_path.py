"""An agent joins, opens a session, starts its engine and answers through the tunnel."""

from poolhouse_agent.runtime import Agent

from tests.fakes.pool import Pool

QUESTION = [{"role": "user", "content": "Tell me about GPU pools."}]


async def test_a_streamed_chat_comes_through_the_tunnel(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    answer = await tunnel.ask({"messages": QUESTION, "stream": True, "stream_options": {"include_usage": True}})

    assert answer.failure is None
    assert answer.head == {"status": 200, "content_type": "text/event-stream; charset=utf-8"}
    assert answer.events[-1] == "[DONE]"
    usage = answer.events[-2]["usage"]
    assert usage["completion_tokens"] > 20
    assert "GPU" in answer.text


async def test_a_plain_chat_comes_through_the_tunnel(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    answer = await tunnel.ask({"messages": QUESTION, "max_tokens": 9})

    assert answer.head == {"status": 200, "content_type": "application/json"}
    assert answer.text
    assert answer.body.count(b'"completion_tokens":9') == 1


async def test_the_heartbeat_carries_gpus_deployments_and_counters(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    answer = await tunnel.ask({"messages": QUESTION, "max_tokens": 7})
    assert answer.failure is None

    beat = await pool.heartbeat(lambda beat: beat["deployments"][0]["counters"].get("generation_tokens_total") == 7)

    assert [gpu["name"] for gpu in beat["gpus"]] == ["NVIDIA GeForce RTX 4090"] * 2
    assert beat["deployments"][0]["state"] == "ready"
    assert beat["wish"] == "serve"
    assert beat["host"]["cpu_count"] > 0
