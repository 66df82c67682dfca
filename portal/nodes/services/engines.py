"""Pins the version of an engine."""

from datetime import datetime

from django.db import transaction

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.nodes.models import EngineKind, EnginePin
from portal.nodes.rules import engines as rules


def pin(*, engine: EngineKind, version: str, floor: str, actor: Actor, now: datetime) -> EnginePin:
    """Say which version nodes should run (empty: their own choice) and below which none serves. Raises InvalidValue."""
    rules.require_pin(version=version, floor=floor)
    with transaction.atomic():
        row, _ = EnginePin.objects.select_for_update().get_or_create(
            engine=engine, defaults={"floor": floor, "updated_at": now}
        )
        before = {"version": row.version, "floor": row.floor}
        row.version, row.floor, row.updated_at = version, floor, now
        row.save()
        audit.record(
            actor=actor, event="engine.pinned", subject=engine, now=now,
            detail={"before": before, "after": {"version": version, "floor": floor}},
        )  # fmt: skip
    return row
