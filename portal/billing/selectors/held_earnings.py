"""What is held for providers who are not identified."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import F, Min, Sum

from portal.billing.models import HeldEarning, LedgerAccount
from portal.billing.rules import held as rules
from portal.billing.rules.accounts import Kind
from portal.billing.selectors import balances
from portal.core import money
from portal.providers.models import Provider


@dataclass(frozen=True, slots=True)
class Held:
    """What is held for one provider, its cap, since when, and when the oldest of it is forfeited (never: None)."""

    amount_nano: int
    cap_nano: int
    since: datetime | None
    expires_at: datetime | None


def caps() -> rules.Caps:
    """Return the pool's caps."""
    return rules.Caps(
        provider_nano=money.nano_from_minor(settings.EARN_BEFORE_KYC_CAP_MINOR, settings.CURRENCY),
        total_nano=money.nano_from_minor(settings.EARN_BEFORE_KYC_TOTAL_MINOR, settings.CURRENCY),
    )


def held_of(*, provider: str) -> Held:
    """Return what is held for one provider."""
    found = HeldEarning.objects.filter(provider=provider, ended_tx=None).aggregate(
        sum=Sum(F("amount_nano") - F("clawed_nano"), default=0), since=Min("held_at")
    )
    since = found["since"]
    expires = rules.expires_at(held_at=since, days=settings.EARN_BEFORE_KYC_EXPIRY_DAYS) if since else None
    return Held(int(found["sum"]), caps().provider_nano, since, expires)


def held_by_provider() -> dict[str, int]:
    """Return every provider (public id) for whom something is held, with the amount."""
    rows = LedgerAccount.objects.filter(kind=Kind.PROVIDER_HELD).order_by("pk")
    return {row.owner: balances.balance_of(row) for row in rows if balances.balance_of(row) > 0}


def to_release(*, limit: int = 200) -> list[str]:
    """Return identified providers for whom something is still held."""
    return list(
        Provider.objects.filter(public_id__in=held_by_provider(), is_identified=True)
        .order_by("pk")
        .values_list("public_id", flat=True)[:limit]
    )


def to_expire(*, now: datetime, days: int, limit: int = 200) -> list[str]:
    """Return unidentified providers with earnings held for longer than that."""
    old = HeldEarning.objects.filter(ended_tx=None, held_at__lte=now - timedelta(days=days))
    owners = old.values_list("provider", flat=True).distinct().order_by("provider")[:limit]
    rows = Provider.objects.filter(public_id__in=list(owners), is_identified=False).order_by("pk")
    return list(rows.values_list("public_id", flat=True))


def oldest(*, limit: int = 500) -> list[tuple[str, datetime]]:
    """Return unidentified providers with the moment from which the oldest of their earnings is held."""
    rows = HeldEarning.objects.filter(ended_tx=None).values("provider").annotate(since=Min("held_at"))
    known = set(Provider.objects.filter(is_identified=False).values_list("public_id", flat=True))
    found = rows.order_by("since", "provider")[:limit]
    return [(row["provider"], row["since"]) for row in found if row["provider"] in known]
