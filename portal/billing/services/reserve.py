"""The rolling reserve: kept back from each maturity, released after its days."""

import hashlib
import logging
from datetime import datetime, timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import BelowFloor
from portal.billing.models import LedgerTx, ReservedEarning
from portal.billing.services import ledger, netting, templates

log = logging.getLogger(__name__)


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

    Each provider is a transaction of its own. Each part is released once; what another run holds is left to it. A
    provider whose reserve is short of its parts is left out and logged; `ledger_check` names the difference.
    """
    return sum(_release_provider(provider, now, limit) for provider in _due_providers(now))


def _due_providers(now: datetime) -> list[str]:
    return list(_due(now).order_by("provider").values_list("provider", flat=True).distinct())


def _due(now: datetime) -> QuerySet[ReservedEarning]:
    return ReservedEarning.objects.filter(released_tx=None, release_at__lte=now)


def _release_provider(provider: str, now: datetime, limit: int) -> int:
    mine = _due(now).filter(provider=provider).order_by("release_at", "id")
    try:
        with transaction.atomic():
            rows = list(mine.select_for_update(skip_locked=True, of=("self",))[:limit])
            if rows:
                _release(provider, rows, now)
    except BelowFloor as error:
        log.error("billing.reserve_blocked", extra={"provider": provider, "reason": error.message})  # noqa: TRY400  the message says it all
        return 0
    return len(rows)


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
