"""What engines are made from on this machine."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

from poolhouse_agent.config import Config, ModelFolder
from poolhouse_agent.engine.base import Engine
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.engine.launch import LEASE, Launcher
from poolhouse_agent.engine.supply import Supply
from poolhouse_agent.protocol.messages import Desired


@dataclass(frozen=True, slots=True)
class Workshop:
    """What engines are made from on this machine; `simulator`, where set, makes simulated ones within this process."""

    config: Config
    http: aiohttp.ClientSession
    engines: Path
    gpus: GpuChoice
    simulated_behaviour: str = ""
    behaviour_file: Path = Path("behaviour")
    simulator: Callable[[Desired], Engine] | None = None
    launcher: Launcher = field(default_factory=lambda: Launcher(Path(LEASE)))
    supply: Supply | None = None

    def weights_of(self, desired: Desired) -> ModelFolder | None:
        """Where the model's weights lie: where the owner says, else where they were fetched to."""
        fetched = self.supply.weights(desired.artefact_digest) if self.supply is not None else None
        return self.config.models.get(desired.model) or (ModelFolder(fetched) if fetched is not None else None)

    @property
    def keeps_engines(self) -> bool:
        """Whether engines go on when the agent is stopped: where systemd keeps them, or the owner wants it so."""
        return self.config.keep_engines or self.launcher.is_supervised
