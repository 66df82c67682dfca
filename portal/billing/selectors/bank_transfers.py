"""Customers' bank transfers, as the operator sees them."""

from django.db.models import QuerySet

from portal.accounts.models import Organization
from portal.billing.models.bank_transfers import BankTransfer, BankTransferState


def transfers_of(*, organization: Organization, limit: int = 50) -> QuerySet[BankTransfer]:
    """Return an organization's transfers, the last entered first."""
    return _rows().filter(organization=organization).order_by("-entered_at", "-pk")[:limit]


def waiting(*, limit: int = 200) -> QuerySet[BankTransfer]:
    """Return the transfers that wait for another operator, oldest first."""
    return _rows().filter(state=BankTransferState.ENTERED).order_by("entered_at", "pk")[:limit]


def recent(*, limit: int = 50) -> QuerySet[BankTransfer]:
    """Return the transfers that were decided, the last entered first."""
    return _rows().exclude(state=BankTransferState.ENTERED).order_by("-entered_at", "-pk")[:limit]


def _rows() -> QuerySet[BankTransfer]:
    return BankTransfer.objects.select_related("organization", "entered_by", "confirmed_by")
