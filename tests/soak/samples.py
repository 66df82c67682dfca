"""What a process occupies, sampled over time, and how fast it grows."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from django.db import connection

_MIB: Final = 1024.0
WARM_UP: Final = 1 / 3


@dataclass(frozen=True)
class Sample:
    """One look at all processes and tables."""

    at_s: float
    figures: dict[str, float]


@dataclass(frozen=True)
class Growth:
    """How a figure went after the warm-up: its fitted growth over the time that was measured, and what is allowed."""

    figure: str
    first: float
    last: float
    grown: float
    allowed: float | None

    @property
    def is_flat(self) -> bool:
        """Whether the growth is within what is allowed; a figure without a limit is only shown."""
        return self.allowed is None or self.grown <= self.allowed


def of_process(pid: int, name: str) -> dict[str, float]:
    """Return a process's memory in MiB, its open files and its threads."""
    memory = {}
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        label, _, rest = line.partition(":")
        if label in {"Rss", "Anonymous"}:
            memory[label.lower()] = int(rest.split()[0]) / _MIB
    return {
        # Not PSS: pages of files that other processes share seem to grow when those end.
        f"{name} own_mib": memory["anonymous"],
        f"{name} rss_mib": memory["rss"],
        f"{name} files": len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208  links to sockets are not paths
        f"{name} threads": len(os.listdir(f"/proc/{pid}/task")),  # noqa: PTH208
    }


def of_tables(tables: Iterable[str]) -> dict[str, float]:
    """Return the size of tables with all their parts and indexes, in MiB."""
    query = """
        SELECT greatest(pg_total_relation_size(%s::regclass), sum(pg_total_relation_size(relid))) / 1048576.0
        FROM pg_partition_tree(%s::regclass)
    """
    sizes = {}
    with connection.cursor() as cursor:
        for table in tables:
            cursor.execute(query, [table, table])
            sizes[f"{table} mib"] = float(cursor.fetchone()[0] or 0)
    return sizes


def of_folder(folder: Path) -> dict[str, float]:
    """Return the size of the spools, in MiB."""
    return {"spools mib": sum(path.stat().st_size for path in folder.iterdir()) / _MIB / _MIB}


def growths(samples: Sequence[Sample], allowed: dict[str, tuple[float, float]]) -> list[Growth]:
    """Fit each figure after the warm-up. `allowed` is by the figure's last word: at once, and an hour."""
    kept = samples[int(len(samples) * WARM_UP) :]
    hours = (kept[-1].at_s - kept[0].at_s) / 3600
    found = []
    for figure in kept[0].figures:
        values = [sample.figures[figure] for sample in kept]
        grown = slope([sample.at_s / 3600 for sample in kept], values) * hours
        limit = next((terms for name, terms in allowed.items() if figure.endswith(name)), None)
        most = None if limit is None else limit[0] + limit[1] * hours
        found.append(Growth(figure, values[0], values[-1], grown, most))
    return found


def slope(times: Sequence[float], values: Sequence[float]) -> float:
    """Return the least squares slope."""
    middle, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((time - middle) ** 2 for time in times)
    return sum((time - middle) * (value - mean) for time, value in zip(times, values, strict=True)) / spread
