"""What providers have chosen, and whether they are leaving."""

from portal.nodes.models import Node, NodeState
from portal.payouts.models import PayoutPlan
from portal.providers.models import Provider


def plan_of(*, provider: Provider) -> PayoutPlan | None:
    """Return the provider's choice, if it ever made one."""
    return PayoutPlan.objects.filter(provider=provider).first()


def living_nodes(*, provider: Provider) -> int:
    """Return how many nodes of the provider are still in the pool."""
    return Node.objects.filter(provider=provider).exclude(state=NodeState.RETIRED).count()
