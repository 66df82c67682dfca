"""Corrections of what providers are owed, as pages read them."""

from django.db.models import QuerySet

from portal.billing.models import AdjustmentState, ProviderAdjustment
from portal.core.errors import NotFound
from portal.providers.models import Provider


def adjustment(public_id: str) -> ProviderAdjustment:
    """Return one correction for the operator. Raises NotFound."""
    row = _rows().filter(public_id=public_id).first()
    if row is None:
        raise NotFound("there is no such adjustment", param="adjustment")
    return row


def adjustments(*, limit: int = 100) -> QuerySet[ProviderAdjustment]:
    """Return corrections for the operator, newest first."""
    return _rows().order_by("-proposed_at", "-pk")[:limit]


def adjustments_of(*, provider: Provider, limit: int = 20) -> QuerySet[ProviderAdjustment]:
    """Return what was booked to one provider, newest first."""
    rows = ProviderAdjustment.objects.filter(provider=provider, state=AdjustmentState.BOOKED)
    return rows.order_by("-decided_at", "-pk")[:limit]


def open_count() -> int:
    """Return how many corrections wait for another operator."""
    return ProviderAdjustment.objects.filter(state=AdjustmentState.PROPOSED).count()


def _rows() -> QuerySet[ProviderAdjustment]:
    return ProviderAdjustment.objects.select_related(
        "provider__organization", "customer", "proposed_by", "decided_by", "tx"
    )
