"""Geometry of the server-drawn SVG charts: pure numbers, the templates only print them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

_MAX_SERIES = 6
_PLOT_TOP, _PLOT_HEIGHT = 2.0, 86.0
_GRID_LINES = 4


@dataclass(frozen=True, slots=True)
class Bar:
    """One rectangle, in percent of the drawing; `series` is 1 to 6."""

    x: str
    y: str
    width: str
    height: str
    series: int


@dataclass(frozen=True, slots=True)
class Column:
    """One label with its bars, bottom first, and what a reader is told about it."""

    bars: list[Bar]
    x: str
    width: str
    text: str
    label: str
    cells: list[str]


@dataclass(frozen=True, slots=True)
class BarChart:
    """All that the template prints."""

    columns: list[Column]
    grid: list[tuple[str, str]]
    ticks: list[tuple[str, str]]
    legend: list[tuple[int, str, str]]


def bar_chart(
    labels: Sequence[str], series: Sequence[tuple[str, Sequence[int]]], write: Callable[[int], str]
) -> BarChart | None:
    """Stack the series over the labels; None where there is nothing above zero. More than six become "Other"."""
    rows = merged(series)
    totals = [sum(values[index] for _, values in rows) for index in range(len(labels))]
    top = max(totals, default=0)
    if top <= 0:
        return None
    ceiling = _ceiling(top)
    slot = 100.0 / len(labels)
    columns = [_column(index, label, rows, ceiling, slot, write) for index, label in enumerate(labels)]
    grid = [
        (_percent(_PLOT_TOP + _PLOT_HEIGHT * (1 - step / _GRID_LINES)), write(ceiling * step // _GRID_LINES))
        for step in range(_GRID_LINES + 1)
    ]
    every = max(1, -(-len(labels) // 8))
    ticks = [(_percent(slot * (i + 0.5)), label) for i, label in enumerate(labels) if i % every == 0]
    legend = [(i + 1, name, write(sum(values))) for i, (name, values) in enumerate(rows)]
    return BarChart(columns=columns, grid=grid, ticks=ticks, legend=legend)


def _column(
    index: int,
    label: str,
    rows: list[tuple[str, list[int]]],
    ceiling: int,
    slot: float,
    write: Callable[[int], str],
) -> Column:
    bars, base = [], _PLOT_TOP + _PLOT_HEIGHT
    gap = min(slot * 0.2, 1.0)
    for number, (_, values) in enumerate(rows, start=1):
        height = _PLOT_HEIGHT * values[index] / ceiling
        base -= height
        if height > 0:
            x, width = slot * index + gap / 2, slot - gap
            bars.append(Bar(_percent(x), _percent(base), _percent(width), _percent(height), number))
    cells = [write(values[index]) for _, values in rows]
    parts = [f"{name} {cell}" for (name, _), cell in zip(rows, cells, strict=True)]
    return Column(
        bars=bars,
        x=_percent(slot * index),
        width=_percent(slot),
        text=f"{label}: {', '.join(parts)}",
        label=label,
        cells=cells,
    )


def merged(series: Sequence[tuple[str, Sequence[int]]]) -> list[tuple[str, list[int]]]:
    """Return at most six series: the five largest and the sum of the others."""
    ranked = sorted(series, key=lambda row: -sum(row[1]))
    if len(ranked) <= _MAX_SERIES:
        return [(name, list(values)) for name, values in series]
    kept = [(name, list(values)) for name, values in ranked[: _MAX_SERIES - 1]]
    rest = [values for _, values in ranked[_MAX_SERIES - 1 :]]
    return [*kept, ("Other", [sum(column) for column in zip(*rest, strict=True)])]


def _ceiling(top: int) -> int:
    """Return the next round number (1, 2, 4 or 8 times a power of ten) at or above `top`, at least the grid's count."""
    size = 1
    while True:
        for factor in (1, 2, 4, 8):
            if factor * size >= max(top, _GRID_LINES):
                return factor * size
        size *= 10


def _percent(value: float) -> str:
    return f"{value:.3f}%"
