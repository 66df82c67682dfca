"""Nodes as pages read them. Each names its tenant; the operator's see all."""

from django.db.models import Count, Q, QuerySet

from portal.catalog.models import CatalogModel
from portal.core.errors import NotFound
from portal.nodes.models import Deployment, DesiredState, EnrolmentToken, Node, NodeEvent, NodeState, ObservedState
from portal.providers.models import Provider

MAX_NODES = 500
MAX_EVENTS = 100
MAX_TOKENS = 50


def nodes_of(*, provider: Provider, with_retired: bool = False) -> QuerySet[Node]:
    """The provider's nodes, newest first, with how many GPUs and running models each has."""
    found = _counted(Node.objects.filter(provider=provider).select_related("provider"))
    return (found if with_retired else found.exclude(state=NodeState.RETIRED))[:MAX_NODES]


def node_of(*, provider: Provider, public_id: str) -> Node:
    """One node of the provider. Raises NotFound."""
    found = Node.objects.filter(provider=provider, public_id=public_id).select_related("provider__organization").first()
    if found is None:
        raise NotFound("there is no such node", param="node")
    return found


def fleet(*, state: str = "", provider: str = "") -> QuerySet[Node]:
    """Every node, newest first, for the operator."""
    found = _counted(Node.objects.select_related("provider__organization"))
    if state:
        found = found.filter(state=state)
    if provider:
        found = found.filter(provider__public_id=provider)
    return found[:MAX_NODES]


def fleet_node(public_id: str) -> Node:
    """One node, for the operator. Raises NotFound."""
    found = Node.objects.filter(public_id=public_id).select_related("provider__organization").first()
    if found is None:
        raise NotFound("there is no such node", param="node")
    return found


def states_count(*, provider: Provider | None = None) -> dict[str, int]:
    """How many nodes are in each state, of one provider or of the fleet."""
    rows = Node.objects.filter(provider=provider) if provider else Node.objects.all()
    return dict(rows.values_list("state").annotate(number=Count("id")).order_by("state"))


def deployments_of(*, node: Node) -> QuerySet[Deployment]:
    """The node's deployments, running ones first."""
    return Deployment.objects.filter(node=node).select_related("model").order_by("desired", "-created_at", "id")[:64]


def deployment_of(*, provider: Provider, public_id: str) -> Deployment:
    """One deployment of the provider. Raises NotFound."""
    rows = Deployment.objects.filter(node__provider=provider, public_id=public_id)
    found = rows.select_related("node__provider__organization", "model").first()
    if found is None:
        raise NotFound("there is no such deployment", param="deployment")
    return found


def deployed_model(*, provider: Provider, public_id: str) -> CatalogModel:
    """A catalogue model that is, or was, deployed on a node of the provider. Raises NotFound."""
    rows = Deployment.objects.filter(node__provider=provider, model__public_id=public_id).select_related("model")
    found = rows.order_by("id").first()
    if found is None:
        raise NotFound("no node of yours has this model", param="model")
    return found.model


def events_of(*, node: Node, limit: int = MAX_EVENTS) -> QuerySet[NodeEvent]:
    """The node's events, newest first."""
    return NodeEvent.objects.filter(node=node).order_by("-at", "-id")[:limit]


def tokens_of(*, provider: Provider) -> QuerySet[EnrolmentToken]:
    """The provider's enrolment tokens, newest first."""
    rows = EnrolmentToken.objects.filter(provider=provider).select_related("node", "created_by")
    return rows.order_by("-created_at", "-id")[:MAX_TOKENS]


def token_of(*, provider: Provider, public_id: str) -> EnrolmentToken:
    """One enrolment token of the provider. Raises NotFound."""
    found = EnrolmentToken.objects.filter(provider=provider, public_id=public_id).select_related("node").first()
    if found is None:
        raise NotFound("there is no such token", param="token")
    return found


def _counted(rows: QuerySet[Node]) -> QuerySet[Node]:
    running = Q(deployments__desired=DesiredState.RUNNING, deployments__observed=ObservedState.READY)
    return rows.annotate(
        gpu_count=Count("gpus", filter=Q(gpus__is_present=True), distinct=True),
        ready_count=Count("deployments", filter=running, distinct=True),
    ).order_by("-enrolled_at", "-id")
