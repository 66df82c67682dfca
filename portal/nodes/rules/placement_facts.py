"""What placement decides from: nodes, models, demand and the operator's policy, as plain values."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from poolhouse_common.planner import Gpu, ModelShape, Wish


@dataclass(frozen=True, slots=True)
class Policy:
    """How rounds decide. Loads are percents of the places that ready nodes have."""

    grow_at_percent: int = 80
    shrink_at_percent: int = 25
    short_for: timedelta = timedelta(seconds=120)
    idle_for: timedelta = timedelta(minutes=30)
    stay: timedelta = timedelta(hours=1)
    moves_a_round: int = 10


@dataclass(frozen=True, slots=True)
class Demand:
    """What customers asked of one model lately: billed tokens a minute, and requests that found no place."""

    tokens_a_minute: int = 0
    refused: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ModelFact:
    """A model that may be placed. `shape` is None where the catalogue has no config.json to plan from.

    Equal to itself alone, so that it is a cheap key of what a round has planned for it already.
    """

    id: int
    public_id: str
    shape: ModelShape | None
    wish: Wish
    minimum: int = 0
    maximum: int | None = None
    demand: Demand = Demand()
    short_since: datetime | None = None
    idle_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class GpuFact:
    """One healthy GPU of a node."""

    uuid: str
    gpu: Gpu


@dataclass(frozen=True, slots=True)
class DeploymentFact:
    """One deployment, as asked for and as the node says. `gpus` is how many it takes where `gpu_uuids` is empty."""

    public_id: str
    model_id: int
    is_wanted: bool
    is_persons: bool
    observed: str
    since: datetime | None
    running: int = 0
    waiting: int = 0
    max_concurrency: int = 1
    gpu_uuids: tuple[str, ...] = ()
    gpus: int = 1
    code: str = ""

    @property
    def holds_gpus(self) -> bool:
        """Whether its engine may still have memory on a GPU."""
        return self.is_wanted or self.observed not in {"stopped", "pending"}


@dataclass(frozen=True, slots=True)
class Failure:
    """A model that was placed on a node and could not be served there."""

    code: str
    at: datetime


@dataclass(frozen=True, slots=True)
class NodeFact:
    """One node, its healthy GPUs, what runs on it, and what could not be served on it when it was placed there."""

    id: int
    public_id: str
    provider_id: int
    state: str
    state_code: str
    is_automatic: bool
    is_simulated: bool
    gpus: tuple[GpuFact, ...] = ()
    deployments: tuple[DeploymentFact, ...] = ()
    failures: dict[int, Failure] = field(default_factory=dict)

    @property
    def is_lost_with_many(self) -> bool:
        """Whether it is away together with a large part of the fleet, which is the platform's fault and not its own."""
        return self.state == "offline" and self.state_code == "platform_silence"

    @property
    def counts(self) -> bool:
        """Whether what runs here is capacity."""
        return self.state in {"serving", "ready", "degraded", "checking"} or self.is_lost_with_many
