"""Splits a node's event stream: events may be cut anywhere, even inside a character or a line ending."""

from typing import Final

MAX_EVENT_BYTES: Final = 1_048_576
DONE: Final = b"[DONE]"


class EventTooLarge(Exception):
    """One event is larger than any honest one."""


class EventSplitter:
    """Takes the bytes as they come and returns the data of each event that is complete; comments are dropped."""

    __slots__ = ("_buffer", "_ends_in_cr", "_scanned")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._ends_in_cr = False

    def feed(self, piece: bytes) -> list[bytes]:
        """Return the data of the events that `piece` completes. Raises EventTooLarge."""
        if not self._buffer and not self._ends_in_cr and (whole := _whole_events(piece)) is not None:
            return whole
        self._buffer += self._with_line_feeds(piece)
        events: list[bytes] = []
        start = 0
        end = self._buffer.find(b"\n\n", self._scanned)
        while end >= 0:
            if end - start > MAX_EVENT_BYTES:
                raise EventTooLarge
            data = event_data(bytes(self._buffer[start:end]))
            if data is not None:
                events.append(data)
            start = end + 2
            end = self._buffer.find(b"\n\n", start)
        if start:
            del self._buffer[:start]
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise EventTooLarge
        self._scanned = max(0, len(self._buffer) - 1)
        return events

    def finish(self) -> list[bytes]:
        """Return the data of a last event whose blank line never came."""
        data = event_data(bytes(self._buffer))
        self._buffer.clear()
        self._scanned = 0
        return [] if data is None else [data]

    def _with_line_feeds(self, piece: bytes) -> bytes:
        if self._ends_in_cr:
            piece = b"\r" + piece
            self._ends_in_cr = False
        if b"\r" not in piece:
            return piece
        if piece.endswith(b"\r"):
            piece = piece[:-1]
            self._ends_in_cr = True
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def _whole_events(piece: bytes) -> list[bytes] | None:
    """Return the data of a piece that is nothing but whole events of one line each, as nearly all are."""
    if not piece.startswith(b"data: ") or not piece.endswith(b"\n\n") or len(piece) > MAX_EVENT_BYTES:
        return None
    events = piece[6:-2].split(b"\n\ndata: ")
    return events if piece.count(b"\n") == 2 * len(events) and b"\r" not in piece else None


def event_data(block: bytes) -> bytes | None:
    """Return an event's data, its lines joined by line feeds; None where it has none."""
    if block.startswith(b"data: ") and b"\n" not in block:
        return block[6:]
    lines: list[bytes] = []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        if name == b"data":
            lines.append(value.removeprefix(b" "))
    return b"\n".join(lines) if lines else None
