"""Streams over one tunnel: windows bound what waits, cancel reaches the node, the protocol is enforced."""

import asyncio

import pytest

from portal.gateway.tunnel import frames
from portal.gateway.tunnel.streams import Interrupted, Mux, NodeSilent, TunnelLost


class _Wire:
    def __init__(self) -> None:
        self.sent: list[tuple[int, int, bytes]] = []

    async def __call__(self, message: bytes, /) -> None:
        self.sent.append(frames.unpack(message))


async def test_frames_reach_the_stream_they_belong_to() -> None:
    wire = _Wire()
    mux = Mux(wire)
    first, second = await mux.open(b"one"), await mux.open(b"two")

    mux.receive(frames.DATA, second.id, b"b")
    mux.receive(frames.DATA, first.id, b"a")

    assert await first.next(1) == (frames.DATA, b"a")
    assert await second.next(1) == (frames.DATA, b"b")
    assert wire.sent == [(frames.REQUEST, 1, b"one"), (frames.REQUEST, 2, b"two")]


async def test_a_window_is_granted_back_only_for_what_was_read() -> None:
    wire = _Wire()
    mux = Mux(wire)
    stream = await mux.open(b"")
    half = frames.WINDOW_BYTES // 2
    mux.receive(frames.DATA, stream.id, b"x" * half)
    mux.receive(frames.DATA, stream.id, b"x" * half)
    assert len(wire.sent) == 1

    await stream.next(1)

    assert wire.sent[1] == (frames.WINDOW, stream.id, half.to_bytes(4, "big"))


async def test_body_that_waits_comes_at_once_but_not_beyond_its_end() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    for kind, payload in ((frames.HEAD, b"{}"), (frames.DATA, b"a"), (frames.DATA, b"bc"), (frames.END, b"{}")):
        mux.receive(kind, stream.id, payload)

    assert await stream.next(1) == (frames.HEAD, b"{}")
    assert (await stream.next(1), stream.gathered) == ((frames.DATA, b"abc"), 2)
    assert (await stream.next(1), stream.gathered) == ((frames.END, b"{}"), 1)


async def test_what_waits_is_taken_in_bounded_pieces() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    for _ in range(6):
        mux.receive(frames.DATA, stream.id, b"x" * 5_000)

    assert [len((await stream.next(1))[1]) for _ in range(2)] == [20_000, 10_000]


async def test_a_node_that_ignores_its_window_breaks_the_protocol() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    mux.receive(frames.DATA, stream.id, b"x" * frames.WINDOW_BYTES)

    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.DATA, stream.id, b"x")


@pytest.mark.parametrize(
    ("kind", "stream"), [(frames.DATA, 2), (frames.DATA, 0), (frames.REQUEST, 1), (frames.HELLO, 1), (0x7F, 1)]
)
async def test_frames_that_do_not_belong_break_the_protocol(kind: int, stream: int) -> None:
    mux = Mux(_Wire())
    await mux.open(b"")

    with pytest.raises(frames.ProtocolError):
        mux.receive(kind, stream, b"")


async def test_nothing_may_follow_the_end() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    mux.receive(frames.END, stream.id, b"{}")

    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.DATA, stream.id, b"more")
    await stream.close()
    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.END, stream.id, b"{}")


async def test_closing_early_cancels_and_late_frames_are_drained_within_the_window() -> None:
    wire = _Wire()
    mux = Mux(wire)
    stream = await mux.open(b"")

    await stream.close()

    assert wire.sent[-1] == (frames.CANCEL, stream.id, b"")
    mux.receive(frames.DATA, stream.id, b"x" * frames.WINDOW_BYTES)
    with pytest.raises(frames.ProtocolError) as broken:
        mux.receive(frames.DATA, stream.id, b"x" * 65_536)
    assert broken.value.rule == "tunnel_window"


async def test_a_canceled_stream_cannot_go_on_in_crumbs() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    await stream.close()

    for _ in range((frames.WINDOW_BYTES + 65_536) // 16):
        mux.receive(frames.DATA, stream.id, b"")
    with pytest.raises(frames.ProtocolError) as broken:
        mux.receive(frames.DATA, stream.id, b"")

    assert broken.value.rule == "tunnel_window"


async def test_a_node_that_never_answers_cancels_costs_a_bounded_memory() -> None:
    mux = Mux(_Wire())
    for _ in range(5_000):
        await (await mux.open(b"")).close()

    assert len(mux._closing) == 4_096
    mux.receive(frames.END, 5_000, b"{}")
    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.END, 1, b"{}")


async def test_crumbs_and_empty_frames_do_not_wait_in_memory() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    for _ in range(8_192):
        mux.receive(frames.DATA, stream.id, b"x")

    with pytest.raises(frames.ProtocolError) as broken:
        mux.receive(frames.DATA, stream.id, b"x")
    assert broken.value.rule == "tunnel_window"
    other = await mux.open(b"")
    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.DATA, other.id, b"")


async def test_heads_are_few_and_small() -> None:
    mux = Mux(_Wire())
    stream, other = await mux.open(b""), await mux.open(b"")
    for _ in range(3):
        mux.receive(frames.HEAD, stream.id, b"{}")

    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.HEAD, stream.id, b"{}")
    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.HEAD, other.id, b"x" * (frames.MAX_JSON_BYTES + 1))


async def test_a_large_body_follows_its_request_until_the_node_has_answered() -> None:
    wire = _Wire()
    mux = Mux(wire)
    first, second = await mux.open(b"head\nbo"), await mux.open(b"")

    await first.send_body([b"dy", b"end"])
    mux.receive(frames.FAIL, second.id, b'{"code": "draining"}')
    await second.send_body([b"nobody waits for this"])

    assert wire.sent[2:] == [(frames.BODY, 1, b"dy"), (frames.BODY, 1, b"end")]


async def test_a_customer_who_leaves_stops_the_sending_of_his_body() -> None:
    mux = Mux(_Wire())
    stream, other = await mux.open(b""), await mux.open(b"")
    stream.interrupt()
    with pytest.raises(Interrupted):
        await stream.send_body([b"x"])

    mux.lose()
    with pytest.raises(TunnelLost):
        await other.send_body([b"x"])


async def test_a_canceled_stream_ends_with_its_last_frame() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    await stream.close()

    mux.receive(frames.FAIL, stream.id, b'{"code": "canceled"}')

    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.DATA, stream.id, b"x")


async def test_silence_has_a_deadline() -> None:
    stream = await Mux(_Wire()).open(b"")

    with pytest.raises(NodeSilent):
        await stream.next(0.01)


async def test_each_wait_has_its_own_deadline_whatever_the_one_before_had() -> None:
    loop = asyncio.get_running_loop()
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    waiting = asyncio.create_task(stream.next(30))
    await asyncio.sleep(0)
    mux.receive(frames.DATA, stream.id, b"x")
    await waiting

    began = loop.time()
    with pytest.raises(NodeSilent):
        await stream.next(0.02)
    assert loop.time() - began >= 0.015

    late = asyncio.create_task(stream.next(0.01))
    await asyncio.sleep(0)
    mux.receive(frames.DATA, stream.id, b"y")
    await late
    mux.receive(frames.DATA, stream.id, b"z")
    patient = asyncio.create_task(stream.next(30))
    assert await patient == (frames.DATA, b"z")
    waiting = asyncio.create_task(stream.next(30))
    await asyncio.sleep(0.03)
    assert not waiting.done()
    stream.interrupt()
    with pytest.raises(Interrupted):
        await waiting


async def test_an_interrupted_reader_stops_at_once_even_with_frames_waiting() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    waiting = asyncio.create_task(stream.next(10))
    await asyncio.sleep(0)

    stream.interrupt()

    with pytest.raises(Interrupted):
        await waiting
    mux.receive(frames.DATA, stream.id, b"x")
    with pytest.raises(Interrupted):
        await stream.next(10)


async def test_a_lost_tunnel_fails_its_streams_after_what_had_arrived() -> None:
    mux = Mux(_Wire())
    stream = await mux.open(b"")
    mux.receive(frames.DATA, stream.id, b"last words")

    mux.lose()

    assert await stream.next(1) == (frames.DATA, b"last words")
    with pytest.raises(TunnelLost):
        await stream.next(1)
    with pytest.raises(TunnelLost):
        await mux.open(b"")


@pytest.mark.parametrize("message", [b"", b"\x01", b"\x01\x00\x00\x00"])
def test_a_message_without_a_header_breaks_the_protocol(message: bytes) -> None:
    with pytest.raises(frames.ProtocolError):
        frames.unpack(message)


def test_a_window_is_four_bytes() -> None:
    assert frames.unpack_window(frames.unpack(frames.pack_window(3, 77))[2]) == 77
    with pytest.raises(frames.ProtocolError):
        frames.unpack_window(b"\x00")
