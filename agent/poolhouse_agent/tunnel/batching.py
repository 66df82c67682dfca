"""Gathers an engine's events: the first token alone, then whole events for a few milliseconds or a few at a time."""

from dataclasses import dataclass, field

from poolhouse_agent.errors import EngineError
from poolhouse_agent.tunnel.terms import USUAL

MAX_EVENT_BYTES = 512 * 1024
MAX_BATCH_BYTES = 64 * 1024
_END_OF_EVENT = b"\n\n"


@dataclass(slots=True)
class EventBatcher:
    """Cuts a byte stream into batches of whole server-sent events. `feed` what came, then `take` what may go."""

    batch_events: int = USUAL.batch_events
    _partial: bytearray = field(default_factory=bytearray)
    _whole: list[bytes] = field(default_factory=list)
    _has_begun: bool = False

    def feed(self, chunk: bytes) -> None:
        """Add bytes from the engine. Raises EngineError on an event that is too long."""
        self._partial += chunk
        end = self._partial.rfind(_END_OF_EVENT)
        if end >= 0:
            end += len(_END_OF_EVENT)
            self._whole += [event + _END_OF_EVENT for event in bytes(self._partial[:end]).split(_END_OF_EVENT)[:-1]]
            del self._partial[:end]
        if len(self._partial) > MAX_EVENT_BYTES or any(len(event) > MAX_EVENT_BYTES for event in self._whole):
            raise EngineError("engine_protocol", f"an event of more than {MAX_EVENT_BYTES} bytes")

    @property
    def has_events(self) -> bool:
        """Whether a whole event waits."""
        return bool(self._whole)

    @property
    def is_full(self) -> bool:
        """Whether what waits should go now: the first tokens at once, later ones in batches."""
        return bool(self._whole) and (not self._has_begun or len(self._whole) >= self.batch_events)

    def take(self) -> bytes:
        """Return the events to send next: one while the stream begins, else a batch's worth."""
        if not self._has_begun:
            event = self._whole.pop(0)
            self._has_begun = b'"role"' not in event
            return event
        size = count = 0
        for event in self._whole:
            size += len(event)
            if count and (size > MAX_BATCH_BYTES or self.batch_events == 1):
                break
            count += 1
        batch = b"".join(self._whole[:count])
        del self._whole[:count]
        return batch

    def rest(self) -> bytes:
        """Return everything that is left at the end, a torn event too."""
        rest = b"".join(self._whole) + bytes(self._partial)
        self._whole.clear()
        self._partial.clear()
        return rest
