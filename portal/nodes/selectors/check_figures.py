"""What results are held against: the policy of each check, and the reference figure of each hardware."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from poolhouse_common import planner

from portal.catalog.selectors.shapes import gpu_kinds
from portal.nodes.models import CheckPolicy, CheckResult, ReferenceFigure
from portal.nodes.rules.checks import Policy, default_policy, median_milli, reference_name

_TERA_MILLI = 10**9
_GIGA_MILLI = 10**6
_MANY = 2000
_LEARNED_FROM = 3  # nodes


@dataclass(frozen=True, slots=True)
class Learned:
    """What the fleet itself reaches: the median over nodes, and over how many."""

    hardware: str
    median_milli: int
    nodes: int


@dataclass(frozen=True, slots=True)
class Known:
    """The policies and figures of this moment."""

    policies: Mapping[str, CheckPolicy]
    figures: Mapping[tuple[str, str], ReferenceFigure]
    kinds: tuple[planner.GpuKind, ...]

    @classmethod
    def load(cls) -> Self:
        """Read them."""
        policies = {row.check_id: row for row in CheckPolicy.objects.order_by("check_id", "revision")[:_MANY]}
        return cls(policies, latest_figures(), gpu_kinds())

    def policy(self, check: str) -> Policy:
        """How a check is judged now."""
        row = self.policies.get(check)
        if row is None:
            return default_policy(check)
        return Policy(
            mode=row.mode, revision=row.revision, fail_percent=row.fail_percent, warn_percent=row.warn_percent,
            most_percent=row.most_percent, fail_limit_milli=row.fail_limit_milli,
            warn_limit_milli=row.warn_limit_milli,
        )  # fmt: skip

    def reference(self, *, check: str, hardware: str) -> int | None:
        """The operator's figure for the card, else what is known of its kind; None where nothing is."""
        own = self.figures.get((hardware.casefold(), check))
        if own is not None:
            return own.figure_milli
        name = reference_name(hardware)
        kind = planner.find_kind(name, self.kinds) if name else None
        return shipped_milli(kind, check) if kind else None


def latest_figures() -> dict[tuple[str, str], ReferenceFigure]:
    """The operator's figures by hardware (folded) and check, the highest revision of each."""
    rows = ReferenceFigure.objects.order_by("hardware", "check_id", "revision")[:_MANY]
    return {(row.hardware.casefold(), row.check_id): row for row in rows}


def shipped_milli(kind: planner.GpuKind, check: str) -> int | None:
    """What is published of a kind: matrix products as measured, copies against the memory's bandwidth."""
    match check:
        case "gpu.matmul.bf16" | "gpu.matmul.fp16":
            return kind.measured_flops // _TERA_MILLI or None
        case "gpu.memory_bandwidth":
            return kind.bandwidth // _GIGA_MILLI
    return None


def learned(*, check: str, since: datetime) -> Sequence[Learned]:
    """The median of a check by hardware, over the newest figure of each GPU of nodes that are not simulated."""
    rows = CheckResult.objects.filter(
        check_id=check, at__gte=since, figure_milli__isnull=False, node__is_simulated=False
    ).exclude(hardware="")
    newest = rows.order_by("node", "subject", "-at").distinct("node", "subject")
    found: dict[str, dict[int, list[int]]] = {}
    for hardware, node, figure in newest.values_list("hardware", "node", "figure_milli")[:_MANY]:
        found.setdefault(hardware, {}).setdefault(node, []).append(figure or 0)
    return [_median(hardware, nodes) for hardware, nodes in sorted(found.items()) if len(nodes) >= _LEARNED_FROM]


def _median(hardware: str, nodes: Mapping[int, list[int]]) -> Learned:
    """A node counts once, however many cards it has: nobody outvotes the fleet."""
    middles = [median_milli(figures) or 0 for figures in nodes.values()]
    return Learned(hardware, median_milli(middles) or 0, len(nodes))
