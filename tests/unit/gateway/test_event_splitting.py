"""A node's event stream may be cut anywhere; what comes out never depends on where."""

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portal.gateway import sse

_TEXT = st.text(alphabet=st.characters(exclude_characters="\r\n", exclude_categories=("Cs",)), max_size=40)
_ENDINGS = st.sampled_from([b"\n", b"\r\n", b"\r"])


@st.composite
def _streams(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A stream of events with comments, several data lines and any line ending, and the data expected of it."""
    ending = draw(_ENDINGS)
    wire, expected = b"", []
    for lines in draw(st.lists(st.lists(_TEXT, min_size=1, max_size=3), max_size=6)):
        if draw(st.booleans()):
            wire += b": " + draw(_TEXT).encode() + ending
        for line in lines:
            space = draw(st.sampled_from([b" ", b""])) if not line.startswith(" ") else b" "
            wire += b"data:" + space + line.encode() + ending
        if draw(st.booleans()):
            wire += b"event: message" + ending
        wire += ending
        expected.append("\n".join(lines).encode())
    return wire, expected


@given(stream=_streams(), cuts=st.lists(st.integers(min_value=0, max_value=2_000), max_size=30))
def test_where_a_stream_is_cut_makes_no_difference(stream: tuple[bytes, list[bytes]], cuts: list[int]) -> None:
    wire, expected = stream
    edges = [0, *sorted(cut for cut in cuts if cut < len(wire)), len(wire)]

    splitter = sse.EventSplitter()
    events = [event for a, b in itertools.pairwise(edges) for event in splitter.feed(wire[a:b])]
    events += splitter.finish()

    assert events == expected


def test_every_recorded_stream_splits_alike_byte_by_byte() -> None:
    wire = (Path(__file__).parent / "recorded_stream.sse").read_bytes()

    whole = sse.EventSplitter().feed(wire)
    splitter = sse.EventSplitter()
    single = [event for byte in wire for event in splitter.feed(bytes([byte]))]

    assert single == whole
    assert whole[-1] == sse.DONE
    assert len(whole) == wire.count(b"data: ")


def test_an_event_larger_than_the_cap_is_refused_while_it_grows() -> None:
    splitter = sse.EventSplitter()

    def feed_without_end() -> None:
        for _ in range(40):
            splitter.feed(b"data: " + b"x" * 65_536)

    with pytest.raises(sse.EventTooLarge):
        feed_without_end()


def test_comments_alone_bring_nothing_and_do_not_pile_up() -> None:
    splitter = sse.EventSplitter()

    assert [splitter.feed(b": ping\n\n") for _ in range(1_000)] == [[]] * 1_000
    assert splitter.finish() == []
