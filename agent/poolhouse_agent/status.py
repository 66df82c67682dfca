"""What a running agent says of itself, every few seconds, in a file that `poolhouse-agent status` reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from poolhouse_agent import VERSION
from poolhouse_agent.engine.deployments import Deployments
from poolhouse_agent.errors import ConfigError, cause_of, fix_of
from poolhouse_agent.heartbeat import Heart, Inventory
from poolhouse_agent.owner import quota, standing
from poolhouse_agent.owner.keeper import Owner
from poolhouse_agent.owner.power import Limit, PowerKeeper
from poolhouse_agent.protocol.messages import DeploymentReport
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import Membership, State

FILE = "status.json"
_STALE_S = 30.0


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a running agent that its status is about."""

    state: State
    membership: Membership
    sessions: SessionKeeper
    heart: Heart
    inventory: Inventory
    deployments: Deployments
    owner: Owner
    power: PowerKeeper


def of(parts: Parts, *, is_connected: bool, now: datetime) -> dict[str, Any]:
    """Return the status as JSON holds it (docs/schemas/agent-status.json)."""
    session, last, error = parts.sessions.current, parts.heart.last, parts.heart.last_error
    return {
        "written_at": _text(now),
        "agent_version": VERSION,
        "node": parts.membership.node,
        "server": parts.membership.server,
        "wish": parts.state.wish().value,
        "owner": owner_of(parts.state, parts.owner, parts.power.limits, now=now),
        "portal": {"code": error.code, "detail": error.detail, "fix": error.fix} if error else {"code": ""},
        "node_state": last.state if last else "",
        "generation": session.generation if session else 0,
        "tunnel": "connected" if is_connected else "disconnected",
        "gpus": list(parts.inventory.latest.gpus),
        "gpu_errors": list(parts.inventory.latest.errors),
        "deployments": deployments_of(parts.deployments.reports()),
    }


def deployments_of(reports: Sequence[DeploymentReport]) -> list[dict[str, Any]]:
    """Return the deployments, each failure with its fix."""
    return [
        {
            "deployment": one.deployment, "model": one.model, "state": one.state, "code": one.code,
            "detail": one.detail, "fix": fix_of(one.code), "running": one.running,
            "max_concurrency": one.max_concurrency,
        }
        for one in reports
    ]  # fmt: skip


def owner_of(state: State, owner: Owner, limits: Sequence[Limit], *, now: datetime) -> dict[str, Any]:
    """Return what the owner allows now, until when, and what the limits stand at."""
    stands, rules = owner.standing, owner.rules
    rests_at = standing.next_rest(rules, now=now)
    return {
        "action": stands.action.value,
        "code": stands.code,
        "until": _text(stands.until.astimezone(rules.zone)) if stands.until else None,
        "detail": stands.detail,
        "rests_at": _text(rests_at.astimezone(rules.zone)) if rests_at else None,
        "zone": str(rules.zone),
        "power_cap_w": rules.power_cap_w,
        "power": [
            {"gpu": one.gpu, "now_w": one.now_w, "before_w": one.before_w, "code": one.code, "detail": one.detail,
             "fix": fix_of(one.code)}
            for one in limits
        ],
        "downloads": _downloads(state, owner, now=now),
    }  # fmt: skip


def _downloads(state: State, owner: Owner, *, now: datetime) -> dict[str, Any]:
    rules = owner.rules
    limits = {"day_limit_bytes": rules.download_day_bytes, "month_limit_bytes": rules.download_month_bytes}
    try:
        so_far = quota.spent(state, rules, now=now)
    except ConfigError as error:
        return {"day_bytes": None, "month_bytes": None, **limits, "code": error.code}
    return {"day_bytes": so_far.day_bytes, "month_bytes": so_far.month_bytes, **limits, "code": ""}


def _text(at: datetime) -> str:
    return at.isoformat(timespec="seconds")


def gather(state: State, membership: Membership, *, now: datetime) -> dict[str, Any]:
    """Return what is known: the agent's own words while it runs, else who this machine is. Raises ConfigError."""
    is_running = state.is_running()
    written = (state.read(FILE) or {}) if is_running else {}
    found = {
        "node": membership.node, "provider": membership.provider, "server": membership.server,
        "name": membership.name, "simulate": membership.simulate, "wish": state.wish().value, **written,
        "is_running": is_running,
    }  # fmt: skip
    found["code"] = _code(found, now)
    found["cause"], found["fix"] = cause_of(found["code"]), fix_of(found["code"])
    found["is_well"] = is_running and found["code"] in {"", found.get("owner", {}).get("code", "")}
    return found


def _code(found: Mapping[str, Any], now: datetime) -> str:
    """The one thing to know first: what is wrong, else why the owner's rules keep it from serving, else nothing."""
    if not found["is_running"]:
        return "agent_not_running"
    if _is_stale(str(found.get("written_at", "")), now):
        return "agent_silent"
    if code := found.get("portal", {}).get("code", ""):
        return str(code)
    if found.get("tunnel") != "connected":
        return "tunnel_lost"
    failed = (one["code"] for one in found.get("deployments", ()) if one["state"] in {"failed", "stuck"})
    return next(failed, "") or str(found.get("owner", {}).get("code", ""))


def _is_stale(written_at: str, now: datetime) -> bool:
    try:
        at = datetime.fromisoformat(written_at)
    except ValueError:
        return True
    return at.tzinfo is None or (now - at).total_seconds() > _STALE_S
