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
        if not self.total_bytes:
            return f"loading {self.what}"
        return f"loading {self.what}: {_gib(self.done_bytes)} of {_gib(self.total_bytes)} GiB"


async def provide(wanted: Desired, workshop: Workshop, *, tell: Callable[[Progress], None]) -> None:
    """Load what is missing, weights and engine. Raises EngineError."""
    supply = workshop.supply
    if wanted.engine != "vllm" or supply is None:
        return

    def told(what: str, done: int, total: int) -> None:
        tell(Progress(what, done, total))

    if wanted.model not in workshop.config.models:
        await supply.fetch_weights(wanted.artefact_digest, tell=told)
    is_own_choice = workshop.config.vllm or workshop.config.container.tool
    if wanted.engine_version and not is_own_choice:
        await supply.install(wanted.engine_version, tell=told)


def _gib(count: int) -> str:
    return f"{count / (1 << 30):.1f}"
