"""The life of a node: the one transition table, and what each state means for routing and liveness."""

from collections.abc import Mapping

from portal.core.errors import Conflict

_LIVE = frozenset({"checking", "ready", "serving", "degraded", "draining", "maintenance"})
_ENDS = frozenset({"suspended", "retired"})

NODE_MOVES: Mapping[str, frozenset[str]] = {
    "enrolled": _LIVE | _ENDS,
    **{state: (_LIVE - {state}) | _ENDS | {"offline"} for state in sorted(_LIVE)},
    "offline": _LIVE | _ENDS,
    "suspended": frozenset({"offline", "retired"}),
    "retired": frozenset(),
}

LIVE_STATES = _LIVE
ROUTABLE_STATES = frozenset({"serving"})
CLOSED_STATES = _ENDS


class NodeMoveRefused(Conflict):
    """The node's state does not allow this move."""

    code = "node_move_refused"


def require_move(*, before: str, after: str) -> None:
    """Raise NodeMoveRefused unless the table allows the move."""
    if after not in NODE_MOVES[before]:
        raise NodeMoveRefused(f"a node that is {before} cannot become {after}")
