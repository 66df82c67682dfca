"""GET /metrics/nodes: what nodes told of their GPUs and engines. Claims of strangers, under names of ours alone.

An unknown reading has no sample; base units as Prometheus wants them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from portal.nodes.selectors import exported
from portal.nodes.selectors.exported import EngineFigures, GpuFigures

_GPU: Final = ("node", "gpu")
_ENGINE: Final = ("node", "model")


@dataclass(frozen=True, slots=True)
class _Reading:
    """One reading of a GPU as a sample: which family, what else labels it, and the factor to its base unit."""

    family: str
    help: str
    factor: float = 1.0
    label: tuple[str, str] | None = None
    is_counter: bool = False


_ECC: Final = "Memory errors since the driver was loaded"
_READINGS: Final[Mapping[str, _Reading]] = {
    "memory_used_bytes": _Reading("memory_used_bytes", "Memory in use"),
    "utilization_percent": _Reading("utilization_ratio", "Share of time that something ran", 0.01),
    "temperature_c": _Reading("temperature_celsius", "Temperature"),
    "fan_percent": _Reading("fan_ratio", "Fan speed, as a share of its most", 0.01),
    "power_mw": _Reading("power_watts", "Power drawn", 0.001),
    "power_limit_mw": _Reading("power_limit_watts", "Power limit in force", 0.001),
    "energy_mj": _Reading("energy_joules", "Energy since the driver was loaded", 0.001, is_counter=True),
    "clock_sm_mhz": _Reading("clock_hertz", "Clock", 1e6, ("clock", "sm")),
    "clock_memory_mhz": _Reading("clock_hertz", "Clock", 1e6, ("clock", "memory")),
    "pcie_generation": _Reading("pcie_generation", "PCIe generation of the link at the moment"),
    "pcie_width": _Reading("pcie_lanes", "PCIe lanes of the link at the moment"),
    "pcie_replays": _Reading("pcie_replays", "PCIe replays", is_counter=True),
    "nvlinks": _Reading("nvlinks", "NVLinks that are up"),
    "ecc_corrected": _Reading("ecc_errors", _ECC, 1.0, ("kind", "corrected"), is_counter=True),
    "ecc_uncorrected": _Reading(
        "ecc_errors", _ECC, 1.0, ("kind", "uncorrected"), is_counter=True
    ),
    "remap_pending": _Reading("row_remap_pending", "A row of memory waits to be replaced"),
    "remap_failed": _Reading("row_remap_failed", "A row of memory could not be replaced"),
    "mig": _Reading("partitioned", "The GPU is cut into slices (MIG)"),
    "process_count": _Reading("processes", "Processes that compute on it"),
}  # fmt: skip
_HELD_BACK: Final = {
    "power_cap": 0x4, "hardware": 0x8, "heat_driver": 0x20, "heat_hardware": 0x40, "power_brake": 0x80,
}  # fmt: skip


_COUNTERS: Final = {
    "prompt_tokens_total": "prompt", "generation_tokens_total": "generation", "cached_tokens_total": "cached",
}  # fmt: skip


class Nodes(Collector):
    """Reads GPUs and engines once, when it is asked."""

    def collect(self) -> Iterator[Metric]:
        """Yield the families."""
        gpus = list(exported.gpus())
        yield from _about(gpus)
        yield from _readings(gpus)
        yield from _engines(list(exported.engines()))


def _about(gpus: Sequence[GpuFigures]) -> Iterator[Metric]:
    described = (*_GPU, "name", "driver", "compute_capability", "simulated")
    about = _gauge("gpu_info", "What the node says the GPU is", described)
    readable = _gauge("gpu_readable", "Whether the node can read the GPU at the moment", _GPU)
    memory = _gauge("gpu_memory_bytes", "Memory of the whole GPU", _GPU)
    slices = _gauge("gpu_slice_memory_bytes", "Memory of a slice of a partitioned GPU", (*_GPU, "slice"))
    for gpu in gpus:
        who = (gpu.node, gpu.uuid)
        is_simulated = "true" if gpu.is_simulated else "false"
        about.add_metric((*who, gpu.name, gpu.driver, gpu.compute_capability, is_simulated), 1)
        readable.add_metric(who, gpu.is_readable)
        if gpu.is_readable and gpu.memory_bytes is not None:
            memory.add_metric(who, gpu.memory_bytes)
        for one in gpu.slices:
            if one.get("memory_bytes") is not None:
                slices.add_metric((*who, str(one["uuid"])), one["memory_bytes"])
    yield from (about, readable, memory, slices)


def _readings(gpus: Sequence[GpuFigures]) -> Iterator[Metric]:
    families: dict[str, Metric] = {}
    for name, reading in _READINGS.items():
        family = families.setdefault(reading.family, _family(reading))
        labels = {reading.label[0]: reading.label[1]} if reading.label else {}
        for gpu in gpus:
            value = gpu.values.get(name)
            if isinstance(value, int | float):
                _sample(family, {"node": gpu.node, "gpu": gpu.uuid, **labels}, value * reading.factor)
    yield from families.values()
    yield from _held_back(gpus)


def _held_back(gpus: Iterable[GpuFigures]) -> Iterator[Metric]:
    held = _gauge("gpu_held_back", "Whether this keeps the clock down at the moment", (*_GPU, "by"))
    xids = _gauge("gpu_xid", "An Xid error heard since the agent started", (*_GPU, "xid"))
    for gpu in gpus:
        reasons = gpu.values.get("throttle_reasons")
        if isinstance(reasons, int):
            for by, bit in _HELD_BACK.items():
                held.add_metric((gpu.node, gpu.uuid, by), bool(reasons & bit))
        for code in gpu.values.get("xids", ()):
            xids.add_metric((gpu.node, gpu.uuid, str(code)), 1)
    yield from (held, xids)


def _engines(engines: Sequence[EngineFigures]) -> Iterator[Metric]:
    ready = _gauge("engine_ready", "Whether the engine answers, as the node says", _ENGINE)
    running = _gauge("engine_requests_running", "Requests in the engine, as it says", _ENGINE)
    waiting = _gauge("engine_requests_waiting", "Requests that wait in the engine, as it says", _ENGINE)
    preempted = CounterMetricFamily("poolhouse_engine_preemptions", "Requests put back by the engine", labels=_ENGINE)
    tokens = CounterMetricFamily(
        "poolhouse_engine_tokens", "The engine's own counters; they begin again with it", labels=(*_ENGINE, "type")
    )
    for engine in engines:
        who = (engine.node, engine.model)
        ready.add_metric(who, engine.is_ready)
        running.add_metric(who, engine.running)
        waiting.add_metric(who, engine.waiting)
        for name, kind in _COUNTERS.items():
            if name in engine.counters:
                tokens.add_metric((*who, kind), engine.counters[name])
        if "preemptions_total" in engine.counters:
            preempted.add_metric(who, engine.counters["preemptions_total"])
    yield from (ready, running, waiting, preempted, tokens)


def _gauge(name: str, text: str, labels: tuple[str, ...]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"poolhouse_{name}", text, labels=labels)


def _family(reading: _Reading) -> Metric:
    name = f"poolhouse_gpu_{reading.family}"
    if reading.is_counter:
        return CounterMetricFamily(name, reading.help)
    return GaugeMetricFamily(name, reading.help)


def _sample(family: Metric, labels: dict[str, str], value: float) -> None:
    """Add a sample whose labels differ from reading to reading of one family."""
    ending = "_total" if isinstance(family, CounterMetricFamily) else ""
    family.add_sample(family.name + ending, labels, value)
