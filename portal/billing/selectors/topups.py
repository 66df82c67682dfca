"""Purchases of credit: for the customer's page, for the webhook and for the sweeper."""

from datetime import datetime

from django.db.models import Q, QuerySet, Sum

from portal.accounts.models import Organization
from portal.billing.models.topups import UNFINISHED, StripeCustomer, TopUp, TopUpOrigin, TopUpState
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


def id_of_reference(reference: str) -> int | None:
    """Return the id of the purchase that a payment's metadata names."""
    return TopUp.objects.filter(public_id=reference).values_list("pk", flat=True).first() if reference else None


def id_of_payment(payment: str) -> int | None:
    """Return the id of the purchase that this payment is known to pay."""
    return TopUp.objects.filter(payment_intent=payment).values_list("pk", flat=True).first()


def auto_since(*, organization_id: int, since: datetime) -> int:
    """Return the minor units that automatic purchases begun since then have charged or may yet charge."""
    rows = TopUp.objects.filter(organization_id=organization_id, origin=TopUpOrigin.AUTO, created_at__gte=since)
    live = rows.exclude(state__in=[TopUpState.FAILED, TopUpState.EXPIRED])
    return int(live.aggregate(total=Sum("amount_minor", default=0))["total"])


def stripe_customer_of(organization_id: int) -> str:
    """Return the organization's customer id at Stripe, empty where it never bought."""
    rows = StripeCustomer.objects.filter(organization_id=organization_id)
    return rows.values_list("stripe_customer", flat=True).first() or ""


def unfinished(*, since: datetime, until: datetime, limit: int = 200) -> list[int]:
    """Return purchases that are not finished, or whose fee is not booked, made between the two moments."""
    is_open = Q(state__in=UNFINISHED) | Q(state=TopUpState.PAID, fee_minor=None)
    rows = TopUp.objects.filter(is_open, created_at__gte=since, created_at__lt=until).order_by("created_at", "pk")
    return list(rows.values_list("pk", flat=True)[:limit])
