"""The figures of GPUs and engines that the portal exports: a node behind a NAT cannot be scraped, so it told them.

Only what is known now: a node that is silent, or a GPU that cannot be read, has no readings here, not old ones.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from portal.nodes.models import Deployment, Gpu
from portal.nodes.rules.states import LIVE_STATES

MOST_GPUS = 8_192
MOST_ENGINES = 8_192


@dataclass(frozen=True, slots=True)
class GpuFigures:
    """One GPU that a live node should have."""

    node: str
    uuid: str
    name: str
    driver: str
    compute_capability: str
    is_simulated: bool
    is_readable: bool
    memory_bytes: int | None
    values: Mapping[str, Any]
    slices: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """One engine on a live node."""

    node: str
    model: str
    is_ready: bool
    running: int
    waiting: int
    counters: Mapping[str, int]


def gpus() -> Iterator[GpuFigures]:
    """Every GPU that a live node reports, or reported last and cannot read now."""
    rows = Gpu.objects.filter(node__state__in=LIVE_STATES).exclude(is_present=False, unread_code="")
    names = ("node__public_id", "uuid", "name", "driver", "compute_capability", "node__is_simulated", "is_present",
             "unread_code", "memory_bytes", "report")  # fmt: skip
    for row in rows.order_by("node_id", "index", "uuid").values(*names)[:MOST_GPUS]:
        is_readable = row["is_present"] and not row["unread_code"]
        yield GpuFigures(
            node=row["node__public_id"],
            uuid=row["uuid"],
            name=row["name"],
            driver=row["driver"],
            compute_capability=row["compute_capability"],
            is_simulated=row["node__is_simulated"],
            is_readable=is_readable,
            memory_bytes=row["memory_bytes"],
            values=row["report"].get("values", {}) if is_readable else {},
            slices=tuple(row["report"].get("instances", ())) if is_readable else (),
        )


def engines() -> Iterator[EngineFigures]:
    """Every engine that a live node says is up or coming up."""
    rows = Deployment.objects.filter(
        node__state__in=LIVE_STATES, observed__in=("starting", "ready", "stuck", "draining")
    )
    names = ("node__public_id", "model__public_id", "observed", "running", "waiting", "counters")
    for row in rows.order_by("node_id", "id").values(*names)[:MOST_ENGINES]:
        yield EngineFigures(
            node=row["node__public_id"],
            model=row["model__public_id"],
            is_ready=row["observed"] == "ready",
            running=row["running"],
            waiting=row["waiting"],
            counters=row["counters"],
        )
