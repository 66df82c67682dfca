"""Where requests of one deployment go."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from poolhouse_agent.errors import RequestRefused

_SLACK = 2  # the gateway keeps the limit; this one only stops a gateway that does not


@dataclass(slots=True)
class Target:
    """A running engine as the tunnel sees it."""

    base_url: str
    served_name: str
    max_concurrency: int
    headers: Mapping[str, str] = field(default_factory=dict)
    running: int = 0
    _idle: asyncio.Event = field(default_factory=asyncio.Event)

    async def idle(self) -> None:
        """Wait until no request runs."""
        while self.running:
            self._idle.clear()
            await self._idle.wait()

    @contextlib.contextmanager
    def in_flight(self) -> Iterator[None]:
        """Count one request. Raises RequestRefused `too_many_streams`."""
        if self.running >= self.max_concurrency * _SLACK:
            raise RequestRefused("too_many_streams", f"{self.running} requests run already")
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._idle.set()
