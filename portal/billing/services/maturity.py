"""Makes earnings available once their time has come."""

from datetime import datetime

from django.conf import settings
from django.db.models import Exists, OuterRef, QuerySet

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import EarningMaturity
from portal.billing.rules import trust_tiers
from portal.billing.selectors import provider_tiers
from portal.billing.services import due, ledger, netting, reserve, templates
from portal.providers.models import Provider


def mature(*, now: datetime, limit: int = 20_000) -> int:
    """Move due earnings from pending to available, `limit` a provider at most; return how many earnings matured.

    A provider whose pending balance is short of its earnings is left out, as `due.book` says.
    """
    theirs = _due(now).filter(provider=OuterRef("public_id"))
    standings = provider_tiers.standings(Provider.objects.filter(Exists(theirs)).order_by("pk"), now=now)
    return sum(_mature_provider(provider, standing.reserve_bps, now, limit) for provider, standing in standings.items())


def _due(now: datetime) -> QuerySet[EarningMaturity]:
    return EarningMaturity.objects.filter(matured_tx=None, matures_at__lte=now)


def _mature_provider(provider: str, reserve_bps: int, now: datetime, limit: int) -> int:
    return due.book(
        _due(now).filter(provider=provider).order_by("matures_at", "id"),
        limit=limit,
        post=lambda rows: _post(rows, reserve_bps, now),
        blocked="billing.maturity_blocked",
        provider=provider,
    )


def _post(rows: list[EarningMaturity], reserve_bps: int, now: datetime) -> None:
    """Book one provider's due earnings: a part into the reserve, the rest available, and from that its debt."""
    provider, amount = rows[0].provider, sum(row.left_nano for row in rows)
    reserve_nano = trust_tiers.reserve_nano(amount, bps=reserve_bps)
    digest = due.digest(rows)
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
