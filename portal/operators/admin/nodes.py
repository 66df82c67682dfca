"""Nodes, what they run and how they joined."""

from portal.nodes.models import Deployment, EnrolmentToken, Gpu, Node, NodeEvent, NodeSession, Tunnel
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
