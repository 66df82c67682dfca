"""Keeps back what is still maturing from a customer whose payments are in doubt, and lets it go on afterwards."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from portal.billing.models import EarningMaturity, LedgerAccount, LedgerTransfer
from portal.billing.rules.accounts import CUSTOMER_KINDS


def delay(*, organization: str, until: datetime, provider: str = "") -> int:
    """Let nothing that came from the organization (public id) mature before `until`; return how many earnings wait.

    With `provider` (public id) only its earnings.
    """
    rows = immature(organization=organization, provider=provider).filter(matures_at__lt=until)
    return rows.update(matures_at=until)


def resume(*, organization: str, customer_days: int, now: datetime) -> int:
    """Give what was kept back its ordinary time again, counted from delivery; return how many earnings moved."""
    days = max(customer_days, settings.PAYOUT_HOLD_DAYS)
    moved = 0
    for row in immature(organization=organization).select_related("tx").order_by("pk"):
        ordinary = row.tx.effective_at + timedelta(days=days)
        if ordinary < row.matures_at:
            moved += EarningMaturity.objects.filter(pk=row.pk, matured_tx=None).update(matures_at=max(now, ordinary))
    return moved


def immature(*, organization: str, provider: str = "") -> QuerySet[EarningMaturity]:
    """Return the earnings from the organization (public id) that have not matured."""
    payers = LedgerAccount.objects.filter(owner=organization, kind__in=CUSTOMER_KINDS)
    paid = LedgerTransfer.objects.filter(tx=OuterRef("tx"), debit_account__in=payers.values("pk"))
    rows = EarningMaturity.objects.filter(Exists(paid), matured_tx=None)
    return rows.filter(provider=provider) if provider else rows
