"""When the platform, not the nodes, was silent."""

from datetime import datetime

from django.db.models import QuerySet

from portal.nodes.models import MassSilence
from portal.nodes.rules import silence


def current(*, now: datetime) -> MassSilence | None:
    """The mass silence that goes on, or has ended so lately that nodes are still on their way back; else None."""
    return MassSilence.objects.filter(last_seen_at__gt=now - silence.RECOVERY).order_by("-last_seen_at", "-id").first()


def between(*, since: datetime, until: datetime, limit: int = 100) -> QuerySet[MassSilence]:
    """The mass silences that reach into the time, newest first: what no node may be blamed for."""
    rows = MassSilence.objects.filter(began_at__lt=until, last_seen_at__gte=since)
    return rows.order_by("-began_at", "-id")[:limit]
