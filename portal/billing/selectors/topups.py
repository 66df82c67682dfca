"""Purchases of credit: for the customer's page, for the webhook and for the sweeper."""

from datetime import datetime

from django.db.models import Q, QuerySet

from portal.accounts.models import Organization
from portal.billing.models.topups import UNFINISHED, TopUp, TopUpState
from portal.core.errors import NotFound


def topup_of(*, organization: Organization, public_id: str) -> TopUp:
    """Return the organization's purchase. Raises NotFound."""
    topup = TopUp.objects.filter(organization=organization, public_id=public_id).first()
    if topup is None:
        raise NotFound("there is no such purchase")
    return topup


def topups_of(*, organization: Organization, limit: int = 50) -> QuerySet[TopUp]:
    """Return the organization's purchases, newest first."""
    return TopUp.objects.filter(organization=organization).order_by("-created_at", "-pk")[:limit]


def id_of_session(session: str) -> int | None:
    """Return the id of the purchase that this Checkout session belongs to."""
    return TopUp.objects.filter(checkout_session=session).values_list("pk", flat=True).first() if session else None


def unfinished(*, since: datetime, until: datetime, limit: int = 200) -> list[int]:
    """Return purchases that are not finished, or whose fee is not booked, made between the two moments."""
    is_open = Q(state__in=UNFINISHED) | Q(state=TopUpState.PAID, fee_minor=None)
    rows = TopUp.objects.filter(is_open, created_at__gte=since, created_at__lt=until).order_by("created_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])
