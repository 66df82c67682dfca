"""What the portal's rows say about a simulated fleet; Django is set up by whoever imports this."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from portal.nodes.models import Deployment, DesiredState, Node, NodeEvent, NodeState
from portal.trust.models import NodeEvidence

# A node of these kinds really is away at times; offline is the truth about it.
REALLY_AWAY = frozenset({"flapping", "cloned", "leaving"})


def kinds_of(*, weights: str, nodes: int, seed: int) -> dict[str, str]:
    """Return the kind of each node by its name, as the simulator draws them."""
    from poolhouse_agent.simulate.fleet import mix

    drawn = mix.draw(mix.parse(weights), nodes=nodes, seed=seed)
    return {f"sim-{number:05d}": kind.name for number, kind in enumerate(drawn)}


def false_offline(kinds: Mapping[str, str], *, since: datetime) -> list[str]:
    """Return the names of nodes that were moved offline though they beat all the time."""
    events = NodeEvent.objects.filter(to_state=NodeState.OFFLINE, at__gte=since, node__name__in=kinds)
    names = events.order_by("id").values_list("node__name", flat=True)
    return [name for name in names if kinds[name] not in REALLY_AWAY]


@dataclass(frozen=True, slots=True)
class Standing:
    """All that a silence must not change: what should run where, what is held against whom."""

    desired: frozenset[tuple[str, str, str]]
    evidence: frozenset[tuple[str, str, int]]
    closed: frozenset[str]


def standing() -> Standing:
    """Return where the fleet stands now."""
    desired = Deployment.objects.filter(desired=DesiredState.RUNNING)
    evidence = NodeEvidence.objects.values_list("node__public_id", "rule", "count")
    closed = Node.objects.filter(state__in=[NodeState.RETIRED, NodeState.SUSPENDED])
    return Standing(
        desired=frozenset(desired.values_list("node__name", "model__public_id", "engine")),
        evidence=frozenset(evidence),
        closed=frozenset(closed.values_list("name", flat=True)),
    )


def changed(before: Standing, after: Standing, kinds: Mapping[str, str]) -> list[str]:
    """Say what is different, leaving out nodes whose kind explains it."""
    moved = before.desired ^ after.desired
    found = [f"{name}: {model}" for name, model, _ in moved if kinds.get(name) not in REALLY_AWAY]
    found += [f"{name}: closed" for name in after.closed - before.closed if kinds.get(name) not in REALLY_AWAY]
    found += [f"held against {node}: {rule}" for node, rule, _ in after.evidence - before.evidence]
    return sorted(found)


def states() -> dict[str, int]:
    """Return how many nodes are in each state."""
    from django.db.models import Count

    rows = Node.objects.values_list("state").annotate(number=Count("id"))
    return dict(rows.order_by("state"))
