"""What catalogue models take of GPUs, and the kinds of GPUs that plans are made for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from poolhouse_common import planner

from portal.catalog.models import CatalogModel, GpuFigures
from portal.catalog.rules import shapes

MAX_KINDS = 500


def shape_of(model: CatalogModel) -> planner.ModelShape | None:
    """Return the model's shape, None where its config.json was not uploaded. Raises ModelConfigInvalid."""
    if model.config is None:
        return None
    return shapes.shape_of(
        config=model.config, weight_bytes=model.weight_bytes, dtype=model.dtype, quantization=model.quantization
    )


def wish_of(model: CatalogModel, *, concurrency: int) -> planner.Wish:
    """Return what the model's deployments ask of a machine."""
    return shapes.wish_of(context=model.context_tokens, concurrency=concurrency, engine_args=model.engine_args)


def figures_of_operator() -> Sequence[GpuFigures]:
    """Return the kinds that the operator corrected or added, by name."""
    return list(GpuFigures.objects.order_by("name")[:MAX_KINDS])


def gpu_kinds() -> tuple[planner.GpuKind, ...]:
    """Return every known kind of GPU by name: the shipped ones, and the operator's before them."""
    kinds = {kind.name: kind for kind in planner.default_kinds()}
    kinds.update((row.name, kind_of(row)) for row in figures_of_operator())
    return tuple(kinds[name] for name in sorted(kinds))


def kind_of(row: GpuFigures) -> planner.GpuKind:
    """Return the operator's figures as the planner takes them."""
    return planner.kind_of({
        "name": row.name, "aliases": list(row.aliases), "memory_mib": row.memory_mib,
        "bandwidth_gbps": row.bandwidth_gbps, "bf16_tflops": row.bf16_tenths / 10,
        "measured_tflops": row.measured_tenths / 10, "watts": row.watts, "capability": row.capability,
    })  # fmt: skip


@dataclass(frozen=True, slots=True)
class Need:
    """On how many GPUs of one kind the model fits at the fewest, and how many full-length requests it then serves."""

    kind: planner.GpuKind
    plan: planner.Plan

    @property
    def at_once(self) -> int:
        """Whole requests of the full context."""
        return int(self.plan.max_concurrency)


def needs_of(model: CatalogModel, kinds: Iterable[planner.GpuKind]) -> list[Need]:
    """Return the kinds of GPUs on which the model fits, up to eight of a kind: the fewest and smallest first."""
    shape = shape_of(model)
    if shape is None:
        return []
    wish = wish_of(model, concurrency=1)
    found = []
    for kind in kinds:
        gpus = [planner.Gpu(kind.name, kind.memory_bytes, kind.capability)] * (wish.tensor_parallel or _MOST_ALIKE)
        answer = planner.plan(shape=shape, gpus=gpus, wish=wish)
        if answer.fits:
            found.append(Need(kind, answer))
    return sorted(found, key=lambda need: (need.plan.tensor_parallel, need.kind.memory_bytes, need.kind.name))


def why_nowhere(model: CatalogModel, kinds: Iterable[planner.GpuKind]) -> str:
    """Return why the model does not fit eight of the largest kind, "" where it does or nobody knows its shape."""
    shape, largest = shape_of(model), max(kinds, key=lambda kind: kind.memory_bytes, default=None)
    if shape is None or largest is None:
        return ""
    gpus = [planner.Gpu(largest.name, largest.memory_bytes, largest.capability)] * _MOST_ALIKE
    answer = planner.plan(shape=shape, gpus=gpus, wish=wish_of(model, concurrency=1))
    return "; ".join(reason.detail for reason in answer.reasons)


_MOST_ALIKE = 8
