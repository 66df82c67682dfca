"""Why a node gets the work it gets, in the words of the failure catalogue."""

from dataclasses import dataclass
from datetime import datetime

from poolhouse_common import failures

from portal.nodes.models import Node, NodeClass, NodeState, Tunnel
from portal.nodes.rules import states


@dataclass(frozen=True, slots=True)
class Explanation:
    """`takes_work` says whether requests may come; `title`, `cause` and `fix` say why or why not."""

    takes_work: bool
    code: str
    title: str
    cause: str
    fix: str
    reason: str = ""
    until: datetime | None = None


def explain_work(*, node: Node) -> Explanation:
    """Say why the node takes requests or none, and what its owner can do."""
    code = _code(node)
    known = failures.explain(code)
    return Explanation(
        takes_work=node.state in states.ROUTABLE_STATES and code == node.state_code,
        code=code,
        title=known.title,
        cause=known.cause,
        fix=known.fix,
        reason=node.state_reason,
        until=_until(node, code),
    )


def class_note(*, node: Node) -> str:
    """Say what the node's class means for how much work it gets."""
    return _CLASS_NOTES[node.node_class]


def _until(node: Node, code: str) -> datetime | None:
    """When the owner's rest ends, as the agent told it; None where nothing or nobody knows."""
    owner = node.load.get("owner") or {}
    return datetime.fromisoformat(owner["until"]) if owner.get("code") == code and owner.get("until") else None


def _code(node: Node) -> str:
    if node.state == NodeState.SERVING and not Tunnel.objects.filter(node=node).exists():
        return "tunnel_lost"
    return node.state_code or "waiting_for_agent"


_CLASS_NOTES: dict[str, str] = {
    NodeClass.HOUSE: "House: the operator's own machine. It serves every kind of key and earns nothing.",
    NodeClass.CONTRACTED: "Contracted: identified, with signed terms. It serves every kind of key and tool calls.",
    NodeClass.COMMUNITY: "Community: identified. It serves keys that allow community nodes; tool calls only where the "
    "key says so.",
    NodeClass.UNIDENTIFIED: "Unidentified: until the payment partner has identified you, only keys that opt in reach "
    "this node. Finish the onboarding on the payouts page.",
}
