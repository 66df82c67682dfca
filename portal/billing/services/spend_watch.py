"""Finds keys that spend far more today than they used to, and tells their owners."""

from datetime import date, datetime, timedelta

from django.conf import settings
from django.db.models import Min, Sum

from portal.accounts.models import AlertKind, ApiKey
from portal.accounts.rules import unusual
from portal.accounts.services import key_alerts
from portal.billing.models import SpendDay
from portal.core.money import decimal_text

_TRAILING_DAYS = 14


def watch(*, now: datetime) -> int:
    """Compare each key's spend of today with the two weeks before; return how many alerts were raised."""
    today = now.date()
    raised = 0
    for key_id, spent_nano in _spenders(today):
        days = _days_before(key_id, today)
        if unusual.is_spike(today_nano=spent_nano, days_nano=days):
            raised += _alert(key_id, spent_nano, days, now)
    return raised


def _spenders(today: date) -> list[tuple[int, int]]:
    """Return the keys whose spend of today reaches the floor."""
    rows = SpendDay.objects.filter(day=today).values("api_key_id").annotate(total=Sum("charge_nano"))
    found = rows.filter(total__gte=unusual.SPIKE_FLOOR_NANO).order_by("api_key_id")
    return [(row["api_key_id"], int(row["total"])) for row in found]


def _days_before(key_id: int, today: date) -> list[int]:
    """Return the spend of each day since the key first spent, at most of two weeks, today left out."""
    rows = SpendDay.objects.filter(api_key_id=key_id, day__lt=today)
    first = rows.aggregate(first=Min("day"))["first"]
    if first is None:
        return []
    since = max(first, today - timedelta(days=_TRAILING_DAYS))
    sums = dict(rows.filter(day__gte=since).values_list("day").annotate(total=Sum("charge_nano")))
    return [int(sums.get(since + timedelta(days=number), 0)) for number in range((today - since).days)]


def _alert(key_id: int, spent_nano: int, days: list[int], now: datetime) -> bool:
    currency = settings.CURRENCY.upper()
    usual = sum(days) // len(days)
    detail = {
        "spent": f"{decimal_text(spent_nano)} {currency}",
        "usual": f"{decimal_text(usual)} {currency}",
        "days": len(days),
    }
    key = ApiKey.objects.select_related("organization").get(pk=key_id)
    return key_alerts.raise_alert(
        key=key, kind=AlertKind.SPEND_SPIKE, subject=now.date().isoformat(), detail=detail, now=now
    )
