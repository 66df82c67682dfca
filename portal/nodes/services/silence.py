"""Finds nodes that have gone silent, by the server's clock, and tells a broken node from a broken platform."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from portal.nodes import locks
from portal.nodes.models import MassSilence, Node, NodeState
from portal.nodes.rules import silence, states
from portal.nodes.selectors import silences
from portal.nodes.services import moves

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Sweep:
    """What one sweep found and did."""

    silent: int
    moved: int
    is_platform_fault: bool


def sweep_silent(*, now: datetime) -> Sweep:
    """Move silent nodes offline. Where many went silent together nobody is moved, until they stay silent for long.

    The first that come back leave the others behind as few: those are not blamed until they had time to come back too.
    """
    fleet = Node.objects.filter(state__in=states.LIVE_STATES)
    suspects = list(
        fleet.filter(last_heartbeat_at__lt=now - silence.SUSPECT_AFTER)
        .order_by("id")
        .values_list("id", "last_heartbeat_at")
    )
    since = [at for _, at in suspects if at is not None]
    silent = [(node_id, at) for node_id, at in suspects if at is not None and at < now - silence.OFFLINE_AFTER]
    is_platform = silence.is_platform_fault(silent_since=since, fleet=fleet.count())
    spared_until = _note_mass(since, now=now) if is_platform else _last_mass(now=now)
    due = [
        node_id
        for node_id, at in silent
        if silence.is_due(silent_since=at, now=now, is_platform_fault=is_platform, spared_until=spared_until)
    ]
    code = "platform_silence" if is_platform else "heartbeat_missed"
    moved = sum(_take_offline(node_id, code=code, now=now) for node_id in due)
    return Sweep(silent=len(silent), moved=moved, is_platform_fault=is_platform)


def _note_mass(since: Sequence[datetime], *, now: datetime) -> datetime:
    """Remember that the platform is at fault now; the nodes are not blamed while they find their way back."""
    many = silence.together(since)
    log.error("nodes.mass_silence", extra={"silent": len(many)})
    known = silences.current(now=now) or MassSilence(began_at=many[0], nodes=0)
    known.last_seen_at, known.nodes = now, max(known.nodes, len(many))
    known.save()
    return now


def _last_mass(*, now: datetime) -> datetime | None:
    known = silences.current(now=now)
    return known.last_seen_at if known is not None else None


def _take_offline(node_id: int, *, code: str, now: datetime) -> bool:
    with transaction.atomic():
        node = locks.node_by_id(node_id)
        seen = node.last_heartbeat_at
        if node.state not in states.LIVE_STATES or seen is None or seen >= now - silence.OFFLINE_AFTER:
            return False
        moves.move(node=node, to=moves.Move(state=NodeState.OFFLINE, code=code), now=now)
    return True
