"""What every kind of engine can do."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from poolhouse_agent.engine.process import Command
from poolhouse_agent.engine.target import Target
from poolhouse_agent.errors import EngineError


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


@dataclass(frozen=True, slots=True)
class Prepared:
    """An engine that can be started: its command, where it will listen, how long it may take, what to tell of it."""

    command: Command
    port: int
    served_name: str
    deadline_s: float
    headers: Mapping[str, str] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


class Recipe(Protocol):
    """How one kind of engine is made for one deployment."""

    def settings(self) -> Mapping[str, Any]:
        """What of the owner's configuration goes in: an engine that was made with other settings is not adopted."""
        ...

    async def prepare(self) -> Prepared:
        """Check and gather what a start needs. Raises EngineError."""
        ...

    def adopt(self, facts: Mapping[str, Any]) -> None:
        """Take back what a running engine of an earlier agent holds."""
        ...

    def classify(self, log: str, *, fallback: EngineError) -> EngineError:
        """Return the failure that the log's end tells of, or the fallback."""
        ...

    async def release(self) -> None:
        """Give back what the engine held, once it has ended. Raises EngineError."""
        ...


def free_port() -> int:
    """A port of 127.0.0.1 that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
