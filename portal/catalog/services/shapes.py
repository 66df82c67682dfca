"""Stores what plans are made from: a model's config.json, and the operator's figures of GPUs."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from poolhouse_common import planner

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.catalog import locks
from portal.catalog.models import CatalogModel, GpuFigures
from portal.catalog.rules import shapes
from portal.core.errors import Conflict, InvalidValue, NotFound
from portal.integrations import bus

MAX_WEIGHT_BYTES = 1 << 43
_LARGEST = 10_000_000


class ConfigStored(Conflict):
    """The model has a config.json already, and one id is one artefact."""

    code = "model_config_stored"


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one kind of GPU as the operator gives them; TFLOPS in tenths."""

    name: str
    memory_mib: int
    bandwidth_gbps: int
    bf16_tenths: int
    watts: int
    capability: str
    measured_tenths: int = 0
    aliases: Sequence[str] = ()


def describe_model(
    *, public_id: str, config: bytes, weight_bytes: int | None, actor: Actor, now: datetime
) -> CatalogModel:
    """Store the model's config.json, once it left the draft for good. Raises ModelConfigInvalid, ConfigStored."""
    parsed = read_config(config)
    with transaction.atomic():
        model = locks.model(public_id)
        if model.config is not None and model.state != "draft":
            raise ConfigStored(f"{public_id} has its config.json", fix="Make a new entry for another release.")
        require_weight_bytes(weight_bytes)
        shapes.shape_of(config=parsed, weight_bytes=weight_bytes, dtype=model.dtype, quantization=model.quantization)
        model.config, model.weight_bytes = parsed, weight_bytes
        model.save(update_fields=["config", "weight_bytes"])
        audit.record(actor=actor, event="model.described", subject=model.public_id, now=now)
        bus.announce("models", model.public_id)
    return model


def read_config(content: bytes) -> dict[str, object]:
    """Return the JSON object of a config.json. Raises ModelConfigInvalid."""
    try:
        return planner.parse_config(content)
    except planner.ConfigRefused as error:
        raise shapes.ModelConfigInvalid(error) from error


def require_weight_bytes(weight_bytes: int | None) -> None:
    """Raises InvalidValue for a size that no model has."""
    if weight_bytes is not None and not 0 < weight_bytes <= MAX_WEIGHT_BYTES:
        raise InvalidValue("give the sum of the weights' files in bytes", param="weight_bytes")


def save_figures(*, figures: Figures, actor: Actor, now: datetime) -> GpuFigures:
    """Store the operator's figures of one kind of GPU, which stand before shipped ones. Raises InvalidValue."""
    _require_figures(figures)
    with transaction.atomic():
        row, _ = GpuFigures.objects.update_or_create(
            name=figures.name.strip(),
            defaults={
                "aliases": [alias.strip() for alias in figures.aliases if alias.strip()],
                "memory_mib": figures.memory_mib,
                "bandwidth_gbps": figures.bandwidth_gbps,
                "bf16_tenths": figures.bf16_tenths,
                "measured_tenths": figures.measured_tenths,
                "watts": figures.watts,
                "capability": figures.capability,
                "changed_at": now,
            },
        )
        audit.record(actor=actor, event="gpu_figures.saved", subject=row.name, now=now)
    return row


def drop_figures(*, name: str, actor: Actor, now: datetime) -> None:
    """Take the operator's figures back; a shipped kind of that name holds again. Raises NotFound."""
    with transaction.atomic():
        dropped, _ = GpuFigures.objects.filter(name=name).delete()
        if not dropped:
            raise NotFound(f"there are no figures of yours for {name!r}", param="name")
        audit.record(actor=actor, event="gpu_figures.dropped", subject=name, now=now)


def _require_figures(figures: Figures) -> None:
    if not figures.name.strip():
        raise InvalidValue("the kind needs a name", param="name")
    for name in ("memory_mib", "bandwidth_gbps", "bf16_tenths", "watts"):
        if not 1 <= getattr(figures, name) <= _LARGEST:
            raise InvalidValue(f"{name} is out of range", param=name)
    if not 0 <= figures.measured_tenths <= _LARGEST:
        raise InvalidValue("measured_tenths is out of range", param="measured_tenths")
    major, _, minor = figures.capability.partition(".")
    if not (major.isdigit() and minor.isdigit()):
        raise InvalidValue("write the compute capability such as 8.9", param="capability")
