"""Private nodes and their guests as pages read them."""

from django.db.models import QuerySet

from portal.accounts.models import Organization
from portal.core.errors import NotFound
from portal.nodes.models import Node, NodeGuest, NodeState

MAX_GUESTS = 200


def guests_of(*, node: Node) -> QuerySet[NodeGuest]:
    """The organizations that the node is shown to, the first named first."""
    return NodeGuest.objects.filter(node=node).select_related("organization").order_by("named_at", "id")[:MAX_GUESTS]


def private_nodes_of(*, organization: Organization) -> QuerySet[NodeGuest]:
    """The private nodes that the organization is named for, the newest first."""
    rows = NodeGuest.objects.filter(organization=organization, node__is_private=True)
    rows = rows.exclude(node__state=NodeState.RETIRED).select_related("node__provider__organization")
    return rows.prefetch_related("node__deployments__model").order_by("-named_at", "-id")[:MAX_GUESTS]


def private_node_of(*, organization: Organization, node_id: str) -> NodeGuest:
    """One private node that the organization is named for. Raises NotFound."""
    rows = NodeGuest.objects.filter(organization=organization, node__public_id=node_id, node__is_private=True)
    found = rows.select_related("node__provider__organization").first()
    if found is None:
        raise NotFound("there is no such private node", param="node")
    return found
