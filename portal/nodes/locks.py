"""The one way to lock a node, with its provider and organization at hand (they are not locked)."""

from django.db.models import QuerySet

from portal.core.errors import NotFound
from portal.core.kept_query import KeptQuery
from portal.nodes.models import Node, NodeSession


class NodeUnknown(NotFound):
    """No node has this id."""

    code = "node_unknown"


def node(public_id: str) -> Node:
    """Lock the node for this transaction. Raises NodeUnknown."""
    return _locked(public_id=public_id)


def node_by_id(node_id: int) -> Node:
    """Lock the node for this transaction. Raises NodeUnknown."""
    return _locked(pk=node_id)


def node_of_session(token_hash: str) -> NodeSession | None:
    """Lock the node whose session has this token, in the same query that finds it; None where there is none.

    What it last said of its updates comes with it, for the heartbeat that says it again.
    """
    return next(iter(_OF_SESSION.rows(token_hash)), None)


def _locked(**which: object) -> Node:
    rows = Node.objects.select_for_update(of=("self",)).select_related("provider__organization")
    found = rows.filter(**which).first()
    if found is None:
        raise NodeUnknown("there is no such node", param="node", fix="Join again with a new token.")
    return found


def _of_session() -> QuerySet[NodeSession]:
    rows = NodeSession.objects.select_for_update(of=("node",)).select_related("node__provider", "node__updates")
    return rows.filter(token_hash="").order_by()


_OF_SESSION = KeptQuery(_of_session)
