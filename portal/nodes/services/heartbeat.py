"""Takes a heartbeat: what the node claims is stored as claims, and the node is moved to where it stands."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from poolhouse_common import failures

from portal.core.version import VERSION
from portal.nodes.models import CheckRound, Deployment, DesiredState, Node, NodeState, ObservedState
from portal.nodes.rules import beats, hardware, readings, states
from portal.nodes.rules import releases as release_rules
from portal.nodes.rules.beats import Beat
from portal.nodes.selectors import checks
from portal.nodes.selectors.releases import offer_for
from portal.nodes.services import inventory, lifecycle, observed, releases, sessions, standing


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the node's owner should read in the agent's log."""

    level: str
    code: str
    text: str
    fix: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a heartbeat is answered: the node's state, what should run, and notices."""

    state: str
    desired: tuple[Deployment, ...]
    notices: tuple[Notice, ...]
    release: str = ""
    check_round: CheckRound | None = None


def record_heartbeat(*, token: str, beat: Beat, address: str | None, now: datetime) -> Answer:
    """Take one heartbeat. Raises what `sessions.authenticate` raises."""
    with transaction.atomic():
        node = sessions.lock_node(token=token, now=now)
        taken = inventory.take(node=node, claims=beat.gpus, errors=beat.gpu_errors, now=now)
        _note_life(node, beat, taken, address=address, now=now)
        rows = observed.take(node=node, claims=beat.deployments, now=now)
        errors = hardware.blocking(beat.gpus, beat.gpu_errors)
        found = standing.Found(gpu_errors=errors, has_gpus=taken.has_gpus, deployments=rows)
        standing.settle(node=node, found=found, now=now)
        if beat.wish == "leave" and node.state == NodeState.MAINTENANCE:
            lifecycle.let_go(node=node, code="left", now=now)
        release = _release(node, beat, now=now)
        wanted = checks.open_round(node=node) if node.state in states.LIVE_STATES else None
        return Answer(node.state, _desired(node, rows), _notices(node, beat), release, wanted)


def _note_life(node: Node, beat: Beat, taken: inventory.Taken, *, address: str | None, now: datetime) -> None:
    node.last_heartbeat_at, node.last_address = now, address
    node.clock_offset_ms = beats.clock_offset_ms(sent_at=beat.sent_at, now=now)
    node.agent_version, node.agent_wish = beat.agent_version[:32], beat.wish
    kept = readings.host(beat.host, beat.host_missing)
    node.load = {
        "host": kept.values,
        "host_missing": kept.missing,
        "owner": beat.owner and {"code": beat.owner.code, "until": beat.owner.until and beat.owner.until.isoformat()},
        "gpu_errors": [{"code": error.code, "detail": error.detail} for error in beat.gpu_errors],
        inventory.DIGESTS: taken.digests,
    }
    node.save(
        update_fields=[
            "last_heartbeat_at",
            "last_address",
            "clock_offset_ms",
            "agent_version",
            "agent_wish",
            "load",
        ]
    )


def _release(node: Node, beat: Beat, *, now: datetime) -> str:
    """Note how the node's updates go; return the version it should have, or an empty text."""
    claim = beat.updates
    if claim is None:
        return ""
    releases.take(node=node, claim=claim, now=now)
    return offer_for(node) if claim.policy == "automatic" else ""


def _desired(node: Node, rows: Sequence[Deployment]) -> tuple[Deployment, ...]:
    """Return what should run, and what should stop and has not said so yet."""
    if node.state in states.CLOSED_STATES:
        return ()
    return tuple(row for row in rows if row.desired == DesiredState.RUNNING or row.observed != ObservedState.STOPPED)


def _notices(node: Node, beat: Beat) -> tuple[Notice, ...]:
    found = []
    offset = node.clock_offset_ms or 0
    if beats.is_clock_off(offset):
        ahead = "ahead of" if offset > 0 else "behind"
        found.append(_notice("warn", "clock_skew", f"this clock is {abs(offset) // 1000} s {ahead} the pool's"))
    if outdated := release_rules.skew_code(agent=node.agent_version, portal=VERSION):
        found.append(_notice("warn", outdated, f"this agent is {node.agent_version}, the pool is {VERSION}"))
    if node.state != NodeState.SERVING and node.state_code:
        level = "warn" if node.state == NodeState.DEGRADED else "info"
        found.append(_notice(level, node.state_code, failures.explain(node.state_code).title))
    known = {error.code for error in beat.gpu_errors} - {node.state_code}
    found.extend(_notice("warn", code, failures.explain(code).title) for code in sorted(known))
    return tuple(found)


def _notice(level: str, code: str, text: str) -> Notice:
    return Notice(level=level, code=code, text=text, fix=failures.explain(code).fix)
