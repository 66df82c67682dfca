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
    with pytest.raises(frames.ProtocolError):
        mux.receive(frames.DATA, stream.id, b"x")


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
