"""What the operator decides about checks: how each is judged, and what hardware should reach. History is added to."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Max, QuerySet
from poolhouse_common import checks as catalogue

from portal.audit import services as audit
from portal.audit.services import Actor
from portal.core import db
from portal.core.errors import InvalidValue
from portal.nodes.models import CheckMode, CheckPolicy, ReferenceFigure

_MOST_PERCENT = 1000
_LARGEST = 10**15


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """A check's next policy."""

    check_id: str
    mode: str
    fail_percent: int = 70
    warn_percent: int = 85
    most_percent: int = 115
    fail_limit_milli: int | None = None
    warn_limit_milli: int | None = None


def set_policy(*, spec: PolicySpec, actor: Actor, now: datetime) -> CheckPolicy:
    """Judge the check so from now on; stored results keep their verdicts. Raises InvalidValue."""
    _require_policy(spec)
    with db.advisory_lock(f"check policy {spec.check_id}"):
        revision = _next(CheckPolicy.objects.filter(check_id=spec.check_id))
        row = CheckPolicy.objects.create(
            check_id=spec.check_id, revision=revision, mode=CheckMode(spec.mode), fail_percent=spec.fail_percent,
            warn_percent=spec.warn_percent, most_percent=spec.most_percent, fail_limit_milli=spec.fail_limit_milli,
            warn_limit_milli=spec.warn_limit_milli, created_by=actor.public_id, created_at=now,
        )  # fmt: skip
        audit.record(
            actor=actor, event="check_policy.set", subject=spec.check_id, now=now,
            detail={"mode": spec.mode, "revision": revision},
        )  # fmt: skip
    return row


def set_reference(
    *, hardware: str, check_id: str, figure_milli: int | None, source: str, actor: Actor, now: datetime
) -> ReferenceFigure:
    """Compare the check with this figure on this hardware from now on; None takes it back. Raises InvalidValue."""
    name = hardware.strip()
    _require_check(check_id, compared=True)
    if not name:
        raise InvalidValue("name the hardware as its nodes report it", param="hardware")
    if figure_milli is not None and not 0 < figure_milli <= _LARGEST:
        raise InvalidValue("the figure is out of range", param="figure")
    with db.advisory_lock(f"reference figure {check_id}"):
        revision = _next(ReferenceFigure.objects.filter(hardware=name, check_id=check_id))
        row = ReferenceFigure.objects.create(
            hardware=name, check_id=check_id, revision=revision, figure_milli=figure_milli,
            source=source.strip()[:240], created_by=actor.public_id, created_at=now,
        )  # fmt: skip
        audit.record(
            actor=actor, event="reference_figure.set", subject=f"{check_id} of {name}"[:120], now=now,
            detail={"figure_milli": figure_milli, "revision": revision},
        )  # fmt: skip
    return row


def _require_policy(spec: PolicySpec) -> None:
    _require_check(spec.check_id, compared=False)
    if spec.mode not in CheckMode.values:
        raise InvalidValue("there is no such mode", param="mode")
    if not 0 <= spec.fail_percent <= spec.warn_percent <= spec.most_percent <= _MOST_PERCENT:
        raise InvalidValue("the percentages must rise from failure over warning to the most", param="warn_percent")


def _require_check(check_id: str, *, compared: bool) -> None:
    known = catalogue.find(check_id)
    if known is None or (compared and not known.is_compared):
        raise InvalidValue("there is no such check to compare", param="check")


def _next(rows: QuerySet[Any]) -> int:
    found = rows.aggregate(last=Max("revision"))["last"]
    return (found or 0) + 1
