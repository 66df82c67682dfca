"""What the probes read of this machine's GPUs, as a table: each reading, or why there is none."""

from collections.abc import Iterator

from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_common import failures

from portal.nodes.selectors import wording


def table(report: GpuReport) -> str:
    """Write the report for a terminal, one reading a line and one column a GPU."""
    head = f"driver {report.driver}, CUDA {_cuda(report.cuda)}, {len(report.gpus)} GPUs"
    faults = [
        f"  {error['code']}: {failures.explain(error['code']).title} ({error['detail']})" for error in report.errors
    ]
    rows = list(_rows(report))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([head, *faults, *lines])


def _rows(report: GpuReport) -> Iterator[tuple[str, ...]]:
    gpus = report.gpus
    yield ("", *(f"GPU {gpu['index']}" for gpu in gpus))
    yield ("name", *(str(gpu["name"]) for gpu in gpus))
    yield ("uuid", *(str(gpu["uuid"]) for gpu in gpus))
    yield ("memory", *(_gib(gpu["memory_bytes"]) for gpu in gpus))
    yield (
        "compute_capability",
        *(gpu["compute_capability"] or _why(gpu["missing"], "compute_capability") for gpu in gpus),
    )
    for name in sorted({name for gpu in gpus for name in (*gpu["values"], *gpu["missing"])} - _APART):
        yield (name, *(wording.text(name, gpu["values"]) or _why(gpu["missing"], name) for gpu in gpus))
    yield ("processes", *(_processes(gpu) for gpu in gpus))
    yield ("instances", *(", ".join(one.get("name", "?") for one in gpu["instances"]) or "none" for gpu in gpus))


_APART = frozenset({"memory", "compute_capability", "processes", "instances", "name"})


def _processes(gpu: dict[str, object]) -> str:
    values, missing = gpu["values"], gpu["missing"]
    if isinstance(values, dict) and "processes" in values:
        return str(len(values["processes"]))
    return _why(missing if isinstance(missing, dict) else {}, "processes")


def _why(missing: dict[str, str], name: str) -> str:
    return f"unknown: {missing.get(name, 'not_told')}"


def _gib(size: int | None) -> str:
    return "unknown" if size is None else f"{size / (1 << 30):.1f} GiB"


def _cuda(version: int | None) -> str:
    return f"{version // 1000}.{version % 1000 // 10}" if version else "unknown"
