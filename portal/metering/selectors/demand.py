"""What customers ask for lately, a model: tokens that were served, and requests that found no node."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from django.db.models import Sum

from portal.metering.models import TurnedAway, UsageRecord
from portal.nodes.rules.placement_facts import Demand

LATELY = timedelta(minutes=10)
# What another node would cure. A key's own policy (class, region, tools, own, price, private) turns away whatever runs.
CURABLE = frozenset({"full", "busy", "none", "not_ready", "tunnel", "breaker", "tried"})
_LONGEST_REQUEST = timedelta(days=1)


def by_model(*, now: datetime) -> Mapping[int, Demand]:
    """Return the demand of the last ten minutes by model id; models that nobody asked for are left out."""
    since = now - LATELY
    served = _served(since, now)
    away = dict(
        TurnedAway.objects.filter(minute__gte=since, minute__lte=now, reason__in=CURABLE)
        .order_by("model_id")
        .values_list("model_id")
        .annotate(number=Sum("requests"))
    )
    minutes = int(LATELY.total_seconds()) // 60
    return {
        model_id: Demand(tokens_a_minute=-(-served.get(model_id, 0) // minutes), refused=away.get(model_id, 0))
        for model_id in sorted(served.keys() | away.keys())
    }


def _served(since: datetime, now: datetime) -> dict[int, int]:
    # A request opens at most a day before it closes: the partitions to read follow from that.
    rows = UsageRecord.objects.filter(closed_at__gte=since, closed_at__lte=now)
    rows = rows.filter(opened_on__gte=(since - _LONGEST_REQUEST).date(), opened_on__lte=now.date())
    sums = rows.order_by("model_id").values_list("model_id")
    return {
        model_id: prompt + completion
        for model_id, prompt, completion in sums.annotate(
            prompt=Sum("prompt_tokens", default=0), completion=Sum("completion_tokens", default=0)
        )
    }
