"""Makes earnings available once their time has come."""

import hashlib
import logging
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.errors import BelowFloor
from portal.billing.models import EarningMaturity
from portal.billing.rules import trust_tiers
from portal.billing.selectors import provider_tiers
from portal.billing.services import ledger, netting, reserve, templates
from portal.providers.models import Provider

log = logging.getLogger(__name__)


def mature(*, now: datetime, limit: int = 20_000) -> int:
    """Move due earnings from pending to available, `limit` a provider at most; return how many earnings matured.

    Each provider is a transaction of its own, so that its many small earnings are one posting and it keeps nobody
    waiting. Each earning matures once; what another run holds is left to it. A provider whose pending balance is short
    of its earnings is left out and logged; `ledger_check` names the difference.
    """
    due = _due(now).filter(provider=OuterRef("public_id"))
    standings = provider_tiers.standings(Provider.objects.filter(Exists(due)).order_by("pk"), now=now)
    return sum(_mature_provider(provider, standing.reserve_bps, now, limit) for provider, standing in standings.items())


def _due(now: datetime) -> QuerySet[EarningMaturity]:
    return EarningMaturity.objects.filter(matured_tx=None, matures_at__lte=now)


def _mature_provider(provider: str, reserve_bps: int, now: datetime, limit: int) -> int:
    mine = _due(now).filter(provider=provider).order_by("matures_at", "id")
    try:
        with transaction.atomic():
            rows = list(mine.select_for_update(skip_locked=True, of=("self",))[:limit])
            if rows:
                _post(rows, reserve_bps, now)
    except BelowFloor as error:
        log.error("billing.maturity_blocked", extra={"provider": provider, "reason": error.message})  # noqa: TRY400  the message says it all
        return 0
    return len(rows)


def _post(rows: list[EarningMaturity], reserve_bps: int, now: datetime) -> None:
    """Book one provider's due earnings: a part into the reserve, the rest available, and from that its debt."""
    provider, amount = rows[0].provider, sum(row.left_nano for row in rows)
    reserve_nano = trust_tiers.reserve_nano(amount, bps=reserve_bps)
    digest = hashlib.sha256(",".join(str(row.pk) for row in rows).encode()).hexdigest()
    tx = ledger.post(
        kind="maturity",
        key=f"maturity:{digest}",
        source_type="maturities",
        source_id=digest,
        transfers=templates.maturity_with_reserve(
            provider=provider, amount=amount, reserve=reserve_nano, currency=settings.CURRENCY
        ),
        actor=SYSTEM_ACTOR,
        now=now,
        note=f"{len(rows)} earnings",
    )
    EarningMaturity.objects.filter(pk__in=[row.pk for row in rows]).update(matured_tx=tx)
    if reserve_nano:
        reserve.keep(tx=tx, provider=provider, amount_nano=reserve_nano, now=now)
    netting.net_debt(provider=provider, cause=str(tx.pk), now=now)
