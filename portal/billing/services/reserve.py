"""The rolling reserve: kept back from each maturity, released after its days."""

import hashlib
from datetime import datetime, timedelta
from itertools import groupby

from django.conf import settings
from django.db import transaction

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import LedgerTx, ReservedEarning
from portal.billing.services import ledger, netting, templates


def keep(*, tx: LedgerTx, provider: str, amount_nano: int, now: datetime) -> ReservedEarning:
    """Note what a maturity has kept back, and until when."""
    return ReservedEarning.objects.create(
        tx=tx,
        provider=provider,
        amount_nano=amount_nano,
        release_at=now + timedelta(days=settings.PAYOUT_RESERVE_DAYS),
    )


def release_due(*, now: datetime, limit: int = 1000) -> int:
    """Make what was kept back long enough available, one posting a provider; return how many parts were released.

    Each part is released once; what another run holds is left to it.
    """
    with transaction.atomic():
        due = list(
            ReservedEarning.objects.select_for_update(skip_locked=True, of=("self",))
            .filter(released_tx=None, release_at__lte=now)
            .order_by("release_at", "id")[:limit]
        )
        due.sort(key=lambda row: (row.provider, row.pk))
        for provider, rows in groupby(due, key=lambda row: row.provider):
            _release(provider, list(rows), now)
    return len(due)


def _release(provider: str, rows: list[ReservedEarning], now: datetime) -> None:
    digest = hashlib.sha256(",".join(str(row.pk) for row in rows).encode()).hexdigest()
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
