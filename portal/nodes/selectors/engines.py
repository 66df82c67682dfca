"""The pinned versions of engines, and which versions the fleet runs."""

from dataclasses import dataclass

from django.db.models import Count, OuterRef, QuerySet, Subquery

from portal.nodes.models import Deployment, DesiredState, EngineKind, EnginePin
from portal.nodes.rules import engines as rules


@dataclass(frozen=True, slots=True)
class Pin:
    """What nodes should run, and below which nothing serves."""

    version: str = ""
    floor: str = rules.FLOOR


@dataclass(frozen=True, slots=True)
class Running:
    """How many deployments say they run a version."""

    version: str
    count: int
    is_below_floor: bool


def pin_of(*, engine: EngineKind = EngineKind.VLLM) -> Pin:
    """Return the operator's choice, or the software's own floor where none was made."""
    row = EnginePin.objects.filter(engine=engine).first()
    return Pin(row.version, row.floor) if row is not None else Pin()


def with_pins(rows: QuerySet[Deployment]) -> QuerySet[Deployment]:
    """Return the deployments with their engines' pins, for `pin_for`, in the same query."""
    pins = EnginePin.objects.filter(engine=OuterRef("engine"))
    return rows.annotate(
        pinned_version=Subquery(pins.values("version")[:1]), pinned_floor=Subquery(pins.values("floor")[:1])
    )


def pin_for(row: Deployment) -> Pin:
    """Return the pin of a deployment that `with_pins` read."""
    return Pin(getattr(row, "pinned_version", None) or "", getattr(row, "pinned_floor", None) or rules.FLOOR)


def running_versions(*, engine: EngineKind = EngineKind.VLLM, limit: int = 50) -> list[Running]:
    """Return the versions that running deployments report, the commonest first; empty is one that tells none."""
    floor = pin_of(engine=engine).floor
    rows = (
        Deployment.objects.filter(engine=engine, desired=DesiredState.RUNNING)
        .values_list("facts__engine_version")
        .annotate(count=Count("id"))
        .order_by("-count", "facts__engine_version")[:limit]
    )
    return [Running(version or "", count, bool(version) and rules.is_below(version, floor)) for version, count in rows]
