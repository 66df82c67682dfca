"""What every kind of engine can do."""

import socket
from typing import Protocol

from poolhouse_agent.engine.target import Target


class Engine(Protocol):
    """One engine of one deployment."""

    async def start(self) -> Target:
        """Bring it up as far as it can be talked to. Raises EngineError."""
        ...

    async def wait_for_end(self) -> str:
        """Wait until it has ended by itself; return the code that says why. May never return."""
        ...

    def explain(self) -> str:
        """A line for people about its last end; never text of a request."""
        ...

    async def stop(self) -> None:
        """End it and everything it started."""
        ...


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
