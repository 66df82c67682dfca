"""Events travel whole; the first token goes alone, later ones gather for 40 ms or four events."""

import pytest
from poolhouse_agent.errors import EngineError
from poolhouse_agent.runtime import Agent
from poolhouse_agent.tunnel.batching import MAX_EVENT_BYTES, EventBatcher

from tests.fakes.pool import DATA, Pool

ROLE = b'data: {"delta":{"role":"assistant","content":""}}\n\n'


def token(number: int) -> bytes:
    return b'data: {"delta":{"content":"%d"}}\n\n' % number


def test_role_and_first_token_go_alone() -> None:
    batcher = EventBatcher()

    batcher.feed(ROLE + ROLE + b"".join(map(token, range(5))))

    assert [batcher.take() for _ in range(3)] == [ROLE, ROLE, token(0)]
    assert batcher.is_full
    assert batcher.take() == b"".join(map(token, range(1, 5)))


def test_a_torn_event_waits_for_its_end() -> None:
    batcher = EventBatcher()

    batcher.feed(token(1)[:9])
    assert not batcher.has_events

    batcher.feed(token(1)[9:] + token(2)[:4])
    assert batcher.take() == token(1)
    assert batcher.rest() == token(2)[:4]


def test_a_separator_that_comes_in_two_pieces_is_found() -> None:
    batcher = EventBatcher()

    batcher.feed(b"data: x\n")
    batcher.feed(b"\n")

    assert batcher.take() == b"data: x\n\n"


def test_fewer_than_four_events_are_not_full() -> None:
    batcher = EventBatcher()
    batcher.feed(token(0))
    batcher.take()

    batcher.feed(token(1) + token(2) + token(3))
    assert not batcher.is_full

    batcher.feed(token(4))
    assert batcher.is_full


@pytest.mark.parametrize("tail", [b"", b"\n\n"])
def test_an_event_without_end_is_refused(tail: bytes) -> None:
    batcher = EventBatcher()

    with pytest.raises(EngineError) as raised:
        batcher.feed(b"x" * (MAX_EVENT_BYTES + 1) + tail)

    assert raised.value.code == "engine_protocol"


async def test_the_tunnel_carries_batches(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    answer = await tunnel.ask({"messages": [{"role": "user", "content": "write 100 words"}], "stream": True})

    pieces = [frame.payload for frame in answer.frames if frame.type == DATA]
    assert b'"role"' in pieces[0]
    assert pieces[0].count(b"data: ") == pieces[1].count(b"data: ") == 1
    assert all(piece.endswith(b"\n\n") for piece in pieces)
    counts = [piece.count(b"data: ") for piece in pieces[2:]]
    assert max(counts) > 1
    assert sum(counts) > len(counts) * 2
