"""What can be served at the moment."""

from django.db.models import Count

from portal.nodes.models import Deployment, DesiredState, NodeState, ObservedState


def ready_by_model() -> dict[str, int]:
    """Return how many serving nodes have each model ready, as the nodes say."""
    ready = Deployment.objects.filter(
        node__state=NodeState.SERVING, desired=DesiredState.RUNNING, observed=ObservedState.READY
    )
    return dict(ready.order_by("model__public_id").values_list("model__public_id").annotate(Count("id")))
