"""Has what an engine needs on this machine before it is started: weights and program."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.protocol.messages import Desired


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a download or an installation is. `total_bytes` is 0 where nobody knows."""

    what: str
    done_bytes: int
    total_bytes: int

    def facts(self) -> dict[str, Any]:
        """For the heartbeat."""
        return {"loading": self.what, "done_bytes": self.done_bytes, "total_bytes": self.total_bytes}

    def text(self) -> str:
        """For people."""
        return (
            f"loading {self.what}: {_gib(self.done_bytes)} of {_gib(self.total_bytes) if self.total_bytes else '?'} GiB"
        )


async def provide(wanted: Desired, workshop: Workshop, *, tell: Callable[[Progress], None]) -> None:
    """Load what is missing. Raises EngineError."""


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f}"
