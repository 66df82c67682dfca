"""The bench's arithmetic: from what was counted to the figures, their ratios and the table of targets."""

import json
from dataclasses import dataclass

MICRO = 1_000_000
TOKENS_A_STREAM = 100


@dataclass(frozen=True)
class Sample:
    """CPU seconds that so many units of work cost, in so many seconds."""

    cpu_s: float
    units: int
    seconds: float

    @property
    def us_each(self) -> float:
        """CPU microseconds a unit."""
        return self.cpu_s * MICRO / self.units if self.units else 0.0

    @property
    def core_share(self) -> float:
        """How much of a core was used."""
        return self.cpu_s / self.seconds if self.seconds else 0.0


@dataclass(frozen=True)
class Profile:
    """One program's figures of one run. `added_p50_ms` is the time it adds to an answer, at concurrency 1."""

    nonstream_rps: float
    nonstream_cpu_us: float
    stream_cpu_us_per_token: float
    unbatched_cpu_us_per_token: float
    added_p50_ms: float
    rss_mib: float
    errors: int = 0


FIGURES = (
    "nonstream_rps",
    "nonstream_cpu_us",
    "stream_cpu_us_per_token",
    "unbatched_cpu_us_per_token",
    "added_p50_ms",
    "rss_mib",
)


@dataclass(frozen=True)
class AgentRow:
    """The gateway's figures with the real agent as its node, and what that cost the agent's machine meanwhile."""

    profile: Profile
    agent_cpu_s: float
    agent_rss_mib: float


@dataclass(frozen=True)
class Target:
    """One line of the design's table that a run can show: ours over theirs, or ours alone."""

    figure: str
    peer: str | None
    limit: float
    is_floor: bool = False

    def value(self, ours: Profile, peers: dict[str, Profile]) -> float | None:
        """Return what was reached; None where the peer was not measured or has nothing there."""
        mine = float(getattr(ours, self.figure))
        if self.peer is None:
            return mine
        if self.peer not in peers:
            return None
        theirs = float(getattr(peers[self.peer], self.figure))
        return mine / theirs if theirs else None

    def is_met(self, value: float) -> bool:
        """Tell whether the value is within the target."""
        return value >= self.limit if self.is_floor else value <= self.limit


TARGETS = (
    Target("nonstream_rps", "vllm-router", 0.5, is_floor=True),
    Target("nonstream_rps", "litellm", 50.0, is_floor=True),
    Target("stream_cpu_us_per_token", "vllm-router", 1.0),
    Target("unbatched_cpu_us_per_token", "vllm-router", 1.6),
    Target("added_p50_ms", None, 0.5),
    Target("rss_mib", None, 150.0),
)


def line(figure: str, ours: float, peer: str, theirs: float) -> str:
    """Return one figure beside a peer's as the interface fixes it."""
    ratio = ours / theirs if theirs else None
    row = {"figure": figure, "ours": _short(ours), "peer": peer, "theirs": _short(theirs)}
    return json.dumps(row | {"ratio": None if ratio is None else _short(ratio)})


def lines(ours: Profile, peers: dict[str, Profile]) -> list[str]:
    """Return all figures, beside each peer; without peers, alone."""
    if not peers:
        return [json.dumps({"figure": name, "ours": _short(getattr(ours, name))}) for name in FIGURES]
    return [
        line(name, getattr(ours, name), peer, getattr(profile, name))
        for name in FIGURES
        for peer, profile in peers.items()
    ]


def agent_lines(row: AgentRow) -> list[str]:
    """Return the second row: the same figures through the real agent, which always gathers tokens."""
    shown = {name: getattr(row.profile, name) for name in FIGURES if name != "unbatched_cpu_us_per_token"}
    shown |= {"agent_cpu_s": row.agent_cpu_s, "agent_rss_mib": row.agent_rss_mib}
    return [json.dumps({"figure": name, "node": "agent", "ours": _short(value)}) for name, value in shown.items()]


def table(ours: Profile, peers: dict[str, Profile]) -> list[str]:
    """Return the targets as a Markdown table."""
    rows = ["| figure | beside | target | reached | |", "|---|---|---|---|---|"]
    for target in TARGETS:
        value = target.value(ours, peers)
        reached = "not measured" if value is None else f"{_short(value):g}"
        verdict = "" if value is None else "met" if target.is_met(value) else "missed"
        sign = "≥" if target.is_floor else "≤"
        unit = " x" if target.peer else ""
        rows.append(
            f"| {target.figure} | {target.peer or ''} | {sign} {target.limit:g}{unit} | {reached} | {verdict} |"
        )
    return rows


def _short(value: float) -> float:
    """Four significant digits: more would be noise."""
    return float(f"{value:.4g}")
