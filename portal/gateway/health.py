"""Whether the process lives and whether it should get traffic, with the names of what is missing."""

from typing import Any

from portal.gateway.process import GatewayProcess


def readiness(process: GatewayProcess, *, now: float) -> tuple[int, dict[str, Any]]:
    """Return the status and body of /readyz; `now` is Unix seconds."""
    reasons = []
    if process.is_draining:
        reasons.append("draining")
    if not process.store.is_loaded:
        reasons.append("snapshot_not_loaded")
    elif process.store.is_stale(now):
        reasons.append("snapshot_stale")
    if not process.settlement.is_accepting:
        reasons.append("spool_unavailable")
    body = {"ready": not reasons, "reasons": reasons, "process": process.config.process}
    body["tunnels"] = len(process.hub.tunnels)
    return (503 if reasons else 200), body
