"""The rolling reserve: kept back from each maturity, released after its days."""

from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import QuerySet

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerTx, ReservedEarning
from portal.billing.services import due, ledger, netting, templates


def keep(*, tx: LedgerTx, provider: str, amount_nano: int, now: datetime) -> ReservedEarning:
    """Note what a maturity has kept back, and until when."""
    return ReservedEarning.objects.create(
        tx=tx,
        provider=provider,
        amount_nano=amount_nano,
        release_at=now + timedelta(days=settings.PAYOUT_RESERVE_DAYS),
    )


def release_due(*, now: datetime, limit: int = 1000) -> int:
    """Make what was kept back long enough available, `limit` parts a provider; return how many parts were released.

    A provider whose reserve is short of its parts is left out, as `due.book` says.
    """
    return sum(_release_provider(provider, now, limit) for provider in _due_providers(now))


def _due_providers(now: datetime) -> list[str]:
    return list(_due(now).order_by("provider").values_list("provider", flat=True).distinct())


def _due(now: datetime) -> QuerySet[ReservedEarning]:
    return ReservedEarning.objects.filter(released_tx=None, release_at__lte=now)


def _release_provider(provider: str, now: datetime, limit: int) -> int:
    return due.book(
        _due(now).filter(provider=provider).order_by("release_at", "id"),
        limit=limit,
        post=lambda rows: _release(provider, rows, now),
        blocked="billing.reserve_blocked",
        provider=provider,
    )


def _release(provider: str, rows: list[ReservedEarning], now: datetime) -> None:
    digest = due.digest(rows)
    tx = ledger.post(
        kind="reserve_released",
        key=f"reserve-released:{digest}",
        source_type="reserved_earnings",
        source_id=digest,
        transfers=templates.reserve_released(
            provider=provider, amount=sum(row.left_nano for row in rows), currency=settings.CURRENCY
        ),
        actor=SYSTEM_ACTOR,
        now=now,
        note=f"{len(rows)} parts",
    )
    ReservedEarning.objects.filter(pk__in=[row.pk for row in rows]).update(released_tx=tx)
    netting.net_debt(provider=provider, cause=str(tx.pk), now=now)
