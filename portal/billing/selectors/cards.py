"""Saved cards of an organization."""

from portal.accounts.models import Organization
from portal.billing.models.auto_topups import CustomerCard
from portal.core.errors import NotFound


def cards_of(*, organization: Organization, limit: int = 20) -> list[CustomerCard]:
    """Return the organization's cards, the newest first, without those that were removed."""
    rows = CustomerCard.objects.filter(organization=organization, removed_at=None)
    return list(rows.order_by("-saved_at", "-pk")[:limit])


def card_of(*, organization: Organization, public_id: str) -> CustomerCard:
    """Return one of the organization's cards, removed or not. Raises NotFound."""
    card = CustomerCard.objects.filter(organization=organization, public_id=public_id).first()
    if card is None:
        raise NotFound("there is no such card", param="card")
    return card


def to_forget(*, limit: int = 100) -> list[int]:
    """Return the removed cards that Stripe has not let go yet."""
    rows = CustomerCard.objects.filter(removed_at__isnull=False, forgotten_at=None)
    return list(rows.order_by("removed_at", "pk").values_list("pk", flat=True)[:limit])
