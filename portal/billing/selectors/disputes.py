"""Disputes and fraud warnings: what pages show and what waits."""

from datetime import datetime

from django.db.models import F, QuerySet

from portal.accounts.models import Organization
from portal.billing.models import Dispute, FraudWarning, WarningState
from portal.billing.rules import disputes as rules
from portal.core.errors import NotFound


def dispute(*, stripe_dispute: str) -> Dispute:
    """Return a dispute. Raises NotFound."""
    row = Dispute.objects.filter(stripe_dispute=stripe_dispute).select_related("organization", "topup").first()
    if row is None:
        raise NotFound(f"no dispute {stripe_dispute}")
    return row


def disputes(*, organization: Organization | None = None, limit: int = 100) -> QuerySet[Dispute]:
    """Return disputes, those whose evidence is due first, of one organization or of all."""
    rows = Dispute.objects.select_related("organization", "topup")
    if organization is not None:
        rows = rows.filter(organization=organization)
    return rows.order_by(F("lost_at").asc(nulls_first=True), F("evidence_due_at").asc(nulls_last=True), "pk")[:limit]


def open_disputes(*, seen_before: datetime, limit: int = 100) -> list[str]:
    """Return the disputes that a bank has not decided and nobody has read since then: an event may have been lost."""
    rows = Dispute.objects.filter(seen_at__lt=seen_before).exclude(status__in=[*rules.WON, rules.LOST])
    return list(rows.order_by("seen_at", "pk").values_list("stripe_dispute", flat=True)[:limit])


def to_answer() -> QuerySet[Dispute]:
    """Return the disputes whose bank takes evidence now, those due first."""
    return Dispute.objects.filter(status__in=rules.ANSWERABLE).order_by(F("evidence_due_at").asc(nulls_last=True), "pk")


def undecided() -> QuerySet[FraudWarning]:
    """Return the fraud warnings that an operator has not decided about, oldest first."""
    return FraudWarning.objects.filter(state=WarningState.OPEN).order_by("warned_at", "pk")


def to_write_off(*, lost_before: datetime, limit: int = 100) -> list[int]:
    """Return lost disputes whose debt may be written off."""
    rows = Dispute.objects.filter(status=rules.LOST, lost_at__lte=lost_before, written_off_at=None)
    return list(rows.order_by("lost_at", "pk").values_list("pk", flat=True)[:limit])


def warning(*, stripe_warning: str) -> FraudWarning:
    """Return a fraud warning. Raises NotFound."""
    row = FraudWarning.objects.filter(stripe_warning=stripe_warning).select_related("organization", "topup").first()
    if row is None:
        raise NotFound(f"no fraud warning {stripe_warning}")
    return row


def warnings(*, organization: Organization | None = None, limit: int = 100) -> QuerySet[FraudWarning]:
    """Return fraud warnings, the undecided first, of one organization or of all."""
    rows = FraudWarning.objects.select_related("organization", "topup")
    if organization is not None:
        rows = rows.filter(organization=organization)
    return rows.order_by("decided_at", "-warned_at", "pk")[:limit]
