"""Whether the process lives and whether it should get traffic, with the names of what is missing."""

from typing import Any

from portal.gateway.process import GatewayProcess


def readiness(process: GatewayProcess, *, now: float) -> tuple[int, dict[str, Any]]:
    """Return the status and body of /readyz; `now` is `time.monotonic()`."""
    reasons = []
    if process.is_draining:
        reasons.append("draining")
    if process.store.is_stale(now):
        reasons.append("snapshot_stale")
    if not process.is_watching:
        reasons.append("tunnels_not_watched")
    body = {"ready": not reasons, "reasons": reasons, "process": process.config.process}
    body["tunnels"] = len(process.hub.tunnels)
    return (503 if reasons else 200), body
