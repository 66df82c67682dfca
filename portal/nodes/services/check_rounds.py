"""Rounds of checks: a node is asked at join, every week and on demand, and reports how it went."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef

from portal.audit.services import SYSTEM, Actor
from portal.core.errors import Conflict, NotFound
from portal.nodes import locks
from portal.nodes.models import OPEN_ROUNDS, CheckRound, Node, RoundReason, RoundState
from portal.nodes.rules import states
from portal.nodes.rules.checks import ResultClaim
from portal.nodes.selectors import checks as selectors
from portal.nodes.services import check_results, decisions, sessions

EVERY = timedelta(days=7)
AGAIN_AFTER = timedelta(hours=6)  # where a round gave way to work or was refused
EXPIRES_AFTER = timedelta(hours=24)
KEPT = timedelta(days=180)
_DELETED_AT_ONCE = 500
_AT_ONCE = 50  # of a sweep: a whole fleet does not measure in the same minute


class RoundOpen(Conflict):
    """The node has been asked and has not finished."""

    code = "check_round_open"


class RoundUnknown(NotFound):
    """The round is not this node's, or is over."""

    code = "check_round_unknown"


@dataclass(frozen=True, slots=True)
class Report:
    """What an agent says of a round: how far it is, and results as they come."""

    round: str
    state: str
    code: str = ""
    percent: int = 0
    doing: str = ""
    results: tuple[ResultClaim, ...] = ()


@dataclass(frozen=True, slots=True)
class Taken:
    """How a report was taken: the round's state, and the verdict on each result."""

    state: str
    verdicts: tuple[Mapping[str, Any], ...] = field(default_factory=tuple)


def ask(*, node: Node, reason: RoundReason, now: datetime, asked_by: str = SYSTEM) -> CheckRound:
    """Ask a locked node for a round; what is open already is returned. A weekly round is a short one."""
    found = CheckRound.objects.filter(node=node, state__in=OPEN_ROUNDS).first()
    if found is not None:
        return found
    node.has_check_matters = True
    node.save(update_fields=["has_check_matters"])
    return CheckRound.objects.create(
        node=node, reason=reason, is_whole=reason != RoundReason.SCHEDULE, asked_by=asked_by, asked_at=now
    )


def ask_on_demand(*, node_id: str, actor: Actor, now: datetime) -> CheckRound:
    """Ask the node for a whole round because somebody wants one. Raises RoundOpen, NodeRetired, NodeSuspended."""
    with transaction.atomic():
        node = decisions.lock_open(node_id)
        if CheckRound.objects.filter(node=node, state__in=OPEN_ROUNDS).exists():
            raise RoundOpen("a round of checks is under way", fix="wait for its results")
        row = ask(node=node, reason=RoundReason.DEMAND, now=now, asked_by=actor.public_id)
        decisions.record(node, "node.checks_asked", actor=actor, now=now, round=row.public_id)
    return row


def ask_due(*, now: datetime) -> int:
    """Ask live nodes whose last round is a week old, or gave way hours ago; return how many."""
    due = selectors.due_nodes(ended_before=now - EVERY, unfinished_before=now - AGAIN_AFTER, limit=_AT_ONCE)
    for node_id in due:
        with transaction.atomic():
            node = locks.node_by_id(node_id)
            if node.state in states.LIVE_STATES:
                ask(node=node, reason=RoundReason.SCHEDULE, now=now)
    return len(due)


def expire(*, now: datetime) -> int:
    """Close rounds that were never finished; return how many."""
    stale = CheckRound.objects.filter(state__in=OPEN_ROUNDS, asked_at__lte=now - EXPIRES_AFTER)
    return stale.update(state=RoundState.EXPIRED, code="check_round_expired", ended_at=now)


def forget(*, now: datetime) -> int:
    """Delete rounds with their results once they are old and the node has a newer finished one; return how many."""
    newer = CheckRound.objects.filter(node=OuterRef("node"), state=RoundState.DONE, asked_at__gt=OuterRef("asked_at"))
    old = CheckRound.objects.filter(ended_at__lte=now - KEPT).filter(Exists(newer))
    found = list(old.order_by("pk").values_list("pk", flat=True)[:_DELETED_AT_ONCE])
    CheckRound.objects.filter(pk__in=found).delete()
    return len(found)


def take_report(*, token: str, report: Report, now: datetime) -> Taken:
    """Store what the agent reports. Raises RoundUnknown and what `sessions.lock_node` raises."""
    with transaction.atomic():
        node = sessions.lock_node(token=token, now=now)
        row = CheckRound.objects.filter(node=node, public_id=report.round).select_related("node__provider").first()
        if row is None or row.state not in OPEN_ROUNDS:
            raise RoundUnknown("there is no such open round of this node", param="round")
        judged = check_results.take(row=row, claims=report.results, now=now)
        _note(row, report, now=now)
    return Taken(state=row.state, verdicts=tuple(check_results.told(one) for one in judged))


def _note(row: CheckRound, report: Report, *, now: datetime) -> None:
    row.state, row.code = RoundState(report.state), report.code
    row.percent, row.doing = report.percent, report.doing
    row.started_at = row.started_at or now
    row.ended_at = None if row.state in OPEN_ROUNDS else now
    row.save(update_fields=["state", "code", "percent", "doing", "started_at", "ended_at"])
    if row.ended_at is not None and not selectors.enforced_failures(node=row.node):
        row.node.has_check_matters = False
        row.node.save(update_fields=["has_check_matters"])
