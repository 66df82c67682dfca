"""What a simulated fleet saw: how long the portal took, what it refused, where the nodes stand."""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_HEARTBEAT = "heartbeat"
_MINUTE_S = 60


@dataclass(slots=True)
class Figures:
    """Counts and durations of all nodes together."""

    durations_s: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    beats_s: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    calm_beats_s: list[float] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    withheld: int = 0

    def note(self, route: str, seconds: float, *, elapsed_s: float, is_calm: bool) -> None:
        """Count one request that was answered so long after the fleet began to live, `is_calm` before any silence."""
        self.durations_s[route].append(seconds)
        if route == _HEARTBEAT:
            self.beats_s[int(elapsed_s // _MINUTE_S)].append(seconds)
            if is_calm:
                self.calm_beats_s.append(seconds)

    def note_failure(self, route: str, code: str) -> None:
        """Count a request that the portal refused or did not answer."""
        self.failures[f"{route} {code}"] += 1

    def routes(self) -> dict[str, dict[str, float]]:
        """For each route how many answers came and after how many milliseconds."""
        return {route: _spread(seconds) for route, seconds in sorted(self.durations_s.items())}

    def calm(self) -> dict[str, float] | None:
        """How long heartbeats took before the first silence; None where there were none."""
        return _spread(self.calm_beats_s) if self.calm_beats_s else None

    def minutes(self) -> list[dict[str, float]]:
        """How long heartbeats took, minute by minute; one without answers is left out."""
        return [{"minute": minute, **_spread(seconds)} for minute, seconds in sorted(self.beats_s.items())]


def _spread(seconds: Sequence[float]) -> dict[str, float]:
    ordered = sorted(seconds)
    return {
        "count": len(ordered),
        "p50_ms": _ms(quantile(ordered, 0.50)),
        "p99_ms": _ms(quantile(ordered, 0.99)),
        "max_ms": _ms(ordered[-1]),
    }


def quantile(ordered: Sequence[float], share: float) -> float:
    """The value that `share` of the sorted values do not exceed."""
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def crossed(pairs: Sequence[tuple[str, str]]) -> dict[str, dict[str, int]]:
    """Count pairs of (kind, state) as a table of tables."""
    table: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, state in pairs:
        table[kind][state] += 1
    return {kind: dict(sorted(states.items())) for kind, states in sorted(table.items())}


def lines(report: dict[str, Any]) -> list[str]:
    """The report as lines for people."""
    nodes = report["nodes"]
    silence = ", all messages to the portal withheld" if report["is_silenced"] else ""
    counts = f"{nodes['total']} nodes, {nodes['tunnels']} tunnels, {nodes['ended']} gone"
    found = [f"{report['elapsed_s']:.0f} s: {counts}{silence}"]
    for kind, states in nodes["by_kind"].items():
        told = ", ".join(f"{count} {state or 'not heard of yet'}" for state, count in states.items())
        found.append(f"  {kind:<11} {told}")
    for route, spread in report["routes"].items():
        found.append(
            f"  {route:<18} {spread['count']:>7} answers   p50 {spread['p50_ms']:>7} ms   p99 {spread['p99_ms']:>7} ms"
        )
    found += [f"  failed: {count} x {what}" for what, count in sorted(report["failures"].items())]
    return found
