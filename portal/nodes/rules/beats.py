"""A heartbeat as the portal understands it. Everything in it is a claim of the node."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

MAX_GPUS = 64
MAX_SLICES = 16
MAX_DEPLOYMENTS = 32
MAX_CLOCK_OFFSET_MS = 30_000


@dataclass(frozen=True, slots=True)
class SliceClaim:
    """One slice of a partitioned GPU; None and empty where the driver did not say."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    gpu_instance: int | None
    compute_instance: int | None
    multiprocessors: int | None


@dataclass(frozen=True, slots=True)
class GpuClaim:
    """One GPU as the node reports it."""

    uuid: str
    index: int
    name: str
    memory_bytes: int | None
    driver: str
    compute_capability: str
    values: Mapping[str, object] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    instances: tuple[SliceClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuError:
    """A GPU, or NVIDIA's library, that could not be read."""

    code: str
    detail: str


@dataclass(frozen=True, slots=True)
class DeploymentClaim:
    """What the node says about one deployment."""

    deployment: str
    state: str
    code: str
    detail: str
    running: int
    waiting: int
    counters: Mapping[str, int] = field(default_factory=dict)
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OwnerClaim:
    """Why the machine's owner keeps it from serving, and until when."""

    code: str
    until: datetime | None


@dataclass(frozen=True, slots=True)
class UpdateClaim:
    """What a node says of its updates: whether they come by themselves, and how the last one went."""

    policy: str
    tried: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Beat:
    """One heartbeat."""

    sent_at: datetime
    agent_version: str
    wish: str
    host: Mapping[str, object]
    gpus: tuple[GpuClaim, ...]
    gpu_errors: tuple[GpuError, ...]
    deployments: tuple[DeploymentClaim, ...]
    owner: OwnerClaim | None = None
    host_missing: Mapping[str, object] = field(default_factory=dict)
    updates: UpdateClaim | None = None


def clock_offset_ms(*, sent_at: datetime, now: datetime) -> int:
    """Return how far the node's clock is ahead (negative: behind)."""
    return round((sent_at - now).total_seconds() * 1000)


def is_clock_off(offset_ms: int) -> bool:
    """Tell whether the node's owner should hear about its clock. It is served all the same."""
    return abs(offset_ms) > MAX_CLOCK_OFFSET_MS
