"""A node's hardware as pages show it: every reading with its unit, or why there is none; no zero for an unknown."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from poolhouse_common import gpu_faults

from portal.nodes.models import Gpu, Node
from portal.nodes.rules import hardware as rules
from portal.nodes.rules import readings
from portal.nodes.selectors import wording
from portal.nodes.selectors.rows import Explained, explained

_MOST = 64


@dataclass(frozen=True, slots=True)
class Line:
    """One reading: its text, or an empty text and the reason."""

    label: str
    text: str
    unknown: Explained | None


@dataclass(frozen=True, slots=True)
class Group:
    """Readings that belong together."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class SliceRow:
    """A slice of a partitioned GPU."""

    uuid: str
    name: str
    memory_bytes: int | None
    multiprocessors: int | None


@dataclass(frozen=True, slots=True)
class GpuCard:
    """A GPU as its node reports it."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    driver: str
    compute_capability: str
    temperature: str
    power: str
    load: str
    state: str
    unread: Explained | None
    fault: Explained | None
    notes: tuple[Explained, ...]
    groups: tuple[Group, ...]
    slices: tuple[SliceRow, ...]
    twins: tuple[str, ...]
    last_seen_at: datetime


@dataclass(frozen=True, slots=True)
class Hardware:
    """The machine, its GPUs and what cannot be read."""

    gpus: tuple[GpuCard, ...]
    errors: tuple[Explained, ...]
    machine: tuple[Group, ...]
    memory_bytes: int | None
    summary: str


def hardware_of(*, node: Node, shows_twins: bool = False) -> Hardware:
    """Return the node's hardware; with `shows_twins` also which other nodes report the same GPUs."""
    gpus = list(Gpu.objects.filter(node=node).order_by("-is_present", "index", "uuid")[:_MOST])
    twins = _twins(node, gpus) if shows_twins else {}
    load = node.load
    machine = readings.host({**node.host, **load.get("host", {})}, load.get("host_missing", {}))
    return Hardware(
        gpus=tuple(_card(gpu, twins.get(gpu.uuid, ())) for gpu in gpus),
        errors=tuple(explained(str(one.get("code", "")), str(one.get("detail", ""))) for one in _errors(load)),
        machine=_groups(wording.HOST, machine.values, machine.missing),
        memory_bytes=total_memory(gpus),
        summary=_summary(machine.values),
    )


def total_memory(gpus: Sequence[Gpu]) -> int | None:
    """Return the memory of the GPUs that are there, slices in place of a cut GPU's own; None where one is unknown."""
    sizes = [_usable(gpu) for gpu in gpus if gpu.is_present]
    known = [size for size in sizes if size is not None]
    return sum(known) if known and len(known) == len(sizes) else None


def _summary(values: Mapping[str, object]) -> str:
    """Return the machine in one line, of what is known."""
    parts = [
        wording.text("os", values), wording.text("cpu_model", values), f"{wording.text('cpu_count', values)} threads",
        wording.text("memory_bytes", values),
    ]  # fmt: skip
    return ", ".join(part for part in parts if part and part != " threads")


def _usable(gpu: Gpu) -> int | None:
    slices = [one.get("memory_bytes") for one in gpu.report.get("instances", [])]
    return rules.memory_bytes(whole=gpu.memory_bytes, slices=slices)


def _errors(load: Mapping[str, object]) -> Sequence[Mapping[str, str]]:
    found = load.get("gpu_errors")
    return found if isinstance(found, list) else ()


def _card(gpu: Gpu, twins: tuple[str, ...]) -> GpuCard:
    values, missing = gpu.report.get("values", {}), gpu.report.get("missing", {})
    is_current = gpu.is_present and not gpu.unread_code
    state = "reported" if is_current else "unread" if gpu.is_present else "missing"
    return GpuCard(
        index=gpu.index,
        uuid=gpu.uuid,
        name=gpu.name,
        memory_bytes=gpu.memory_bytes,
        driver=gpu.driver,
        compute_capability=gpu.compute_capability,
        temperature=wording.text("temperature_c", values) if is_current else "",
        power=wording.text("power_mw", values) if is_current else "",
        load=wording.text("utilization_percent", values) if is_current else "",
        state=state,
        unread=explained(gpu.unread_code) if gpu.unread_code else None,
        fault=explained(gpu.fault_code) if gpu.fault_code else None,
        notes=tuple(explained(code) for code in gpu_faults.notes(values)) if is_current else (),
        groups=_groups(wording.GPU, values, missing),
        slices=tuple(_slice(one) for one in gpu.report.get("instances", [])),
        twins=twins,
        last_seen_at=gpu.last_seen_at,
    )


def _slice(one: Mapping[str, object]) -> SliceRow:
    memory, processors = one.get("memory_bytes"), one.get("multiprocessors")
    return SliceRow(
        uuid=str(one.get("uuid", "")),
        name=str(one.get("name", "")),
        memory_bytes=memory if isinstance(memory, int) else None,
        multiprocessors=processors if isinstance(processors, int) else None,
    )


def _groups(
    layout: Mapping[str, Mapping[str, str]], values: Mapping[str, object], missing: Mapping[str, str]
) -> tuple[Group, ...]:
    return tuple(
        Group(title, tuple(_line(name, label, values, missing) for name, label in labels.items()))
        for title, labels in layout.items()
    )


def _line(name: str, label: str, values: Mapping[str, object], missing: Mapping[str, str]) -> Line:
    if name in values:
        return Line(label, wording.text(name, values), None)
    return Line(label, "", explained(str(missing.get(name) or "not_told")))


def _twins(node: Node, gpus: Sequence[Gpu]) -> dict[str, tuple[str, ...]]:
    """Return the other nodes that report a GPU of the same UUID at the moment."""
    rows = Gpu.objects.filter(uuid__in=[gpu.uuid for gpu in gpus], is_present=True).exclude(node=node)
    found: dict[str, tuple[str, ...]] = {}
    for uuid, other in rows.order_by("uuid", "node_id").values_list("uuid", "node__public_id")[:_MOST]:
        found[uuid] = (*found.get(uuid, ()), other)
    return found
