"""What the operating system says about this machine; a fact that cannot be read has a reason in its place."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from poolhouse_agent.probes import disk, memory, network, processor, surroundings, system
from poolhouse_agent.probes.reading import Probe, ask

ROOT = Path("/")
_STATE = Path("/var/lib/poolhouse")
_FACTS: dict[str, Probe] = {
    **system.FACTS, **surroundings.FACTS, **processor.FACTS, **memory.FACTS, **network.FACTS,
}  # fmt: skip
_LOAD: dict[str, Probe] = {**system.LOAD, **processor.LOAD, **memory.LOAD, **network.LOAD}


@dataclass(frozen=True, slots=True)
class HostReport:
    """The machine's readings, and why the others are missing. A name stands in exactly one of the two."""

    values: dict[str, Any]
    missing: dict[str, str]


def report(folder: Path = _STATE, *, root: Path = ROOT) -> HostReport:
    """Read everything; `folder` is the one whose disk matters."""
    return HostReport(*ask({**_FACTS, **disk.facts(folder), **_LOAD, **disk.load(folder)}, root))


def facts(folder: Path = _STATE, *, root: Path = ROOT) -> dict[str, Any]:
    """Return what is known and does not change while the machine runs."""
    return ask({**_FACTS, **disk.facts(folder)}, root)[0]


def load(folder: Path = _STATE, *, root: Path = ROOT) -> dict[str, Any]:
    """Return how busy the machine is, as far as it is known."""
    return ask({**_LOAD, **disk.load(folder)}, root)[0]
