"""Nodes, what they run and how they joined."""

from portal.nodes.models import (
    CheckPolicy,
    CheckResult,
    CheckRound,
    Deployment,
    EnrolmentToken,
    Gpu,
    Node,
    NodeEvent,
    NodeSession,
    ReferenceFigure,
    Tunnel,
)
from portal.operators.admin.look_up import show

show(
    Node,
    "name", "public_id", "provider", "node_class", "state", "state_code", "last_heartbeat_at",
    search=("public_id", "name"),
    filters=("state", "node_class"),
)  # fmt: skip
show(Gpu, "uuid", "node", "name", "memory_bytes", "driver", "is_present", "last_seen_at", search=("uuid",))
show(NodeEvent, "at", "node", "from_state", "to_state", "code", "cause", search=("node__public_id",))
show(Deployment, "public_id", "node", "model", "engine", "desired", "observed", search=("public_id",))
show(EnrolmentToken, "public_id", "provider", "label", "expires_at", "used_at", hidden=("token_hash",))
show(NodeSession, "node", "generation", "address", "created_at", "expires_at", hidden=("token_hash",))
show(Tunnel, "node", "process", "generation", "connected_at", "seen_at")
show(
    CheckRound,
    "public_id", "node", "reason", "state", "code", "asked_at", "ended_at",
    search=("public_id", "node__public_id"), filters=("state", "reason"),
)  # fmt: skip
show(
    CheckResult,
    "check_id", "node", "subject", "verdict", "verdict_code", "is_enforced", "at",
    search=("check_id", "node__public_id"), filters=("verdict", "is_enforced"),
)  # fmt: skip
show(CheckPolicy, "check_id", "revision", "mode", "created_by", "created_at", search=("check_id",))
show(ReferenceFigure, "hardware", "check_id", "revision", "figure_milli", "created_by", search=("hardware", "check_id"))
