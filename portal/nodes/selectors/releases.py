"""Which releases of the agent there are, who runs them, and which one a node should have."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q, QuerySet

from portal.core.errors import NotFound
from portal.core.version import VERSION
from portal.nodes.models import Node, NodeState
from portal.nodes.models.releases import AgentRelease, NodeUpdates, ReleaseRing, ReleaseState
from portal.nodes.rules import releases as rules
from portal.nodes.selectors.rows import Explained, explained

_FILES = ("manifest", "wheel", "requirements")
_FULLY = 100


@dataclass(frozen=True, slots=True)
class Offer:
    """What has to be known of a release to offer it to nodes."""

    version: str
    order: int
    ring: str
    percent: int


@dataclass(frozen=True, slots=True)
class Spread:
    """How far a version has come: nodes that run it, that tried it, and on which it failed."""

    running: int
    tried: int
    failed: int


@dataclass(frozen=True, slots=True)
class Updates:
    """How the updates of a node's agent stand; what keeps them from coming or went wrong is in `troubles`."""

    policy: str
    tried: str
    offered: str
    has_succeeded: bool
    troubles: tuple[Explained, ...]
    said_at: datetime | None


def updates_of(*, node: Node) -> Updates:
    """Return how the node's agent is updated, as far as it has said so, and what its owner can do about it."""
    said = NodeUpdates.objects.filter(node=node).first()
    policy, tried, code = (said.policy, said.tried, said.code) if said is not None else ("", "", "")
    codes = (rules.skew_code(agent=node.agent_version, portal=VERSION), rules.POLICY_CODES.get(policy, ""), code)
    return Updates(
        policy=policy,
        tried=tried,
        offered=offer_for(node),
        has_succeeded=bool(tried) and not code,
        troubles=tuple(explained(one) for one in codes if one),
        said_at=said.said_at if said is not None else None,
    )


def releases(*, limit: int = 50) -> QuerySet[AgentRelease]:
    """Return the releases, newest first, without their files."""
    return AgentRelease.objects.defer(*_FILES).order_by("-order")[:limit]


def release(version: str) -> AgentRelease:
    """Return a release with its files; a withdrawn one is gone. Raises NotFound."""
    found = AgentRelease.objects.filter(version=version).exclude(state=ReleaseState.WITHDRAWN).first()
    if found is None:
        raise NotFound("there is no such release of the agent", param="version")
    return found


def to_install() -> AgentRelease | None:
    """Return what a new machine gets: the newest that has reached everybody, else the newest there is."""
    rows = AgentRelease.objects.filter(state=ReleaseState.OFFERED).order_by("-order")
    return rows.filter(ring=ReleaseRing.ALL, percent=_FULLY).first() or rows.first()


def offers() -> list[Offer]:
    """Return what may be offered to nodes, newest first: signed and neither halted nor withdrawn."""
    rows = AgentRelease.objects.filter(state=ReleaseState.OFFERED, percent__gt=0).exclude(signature="")
    found = rows.order_by("-order").values_list("version", "order", "ring", "percent")
    return [Offer(*row) for row in found[:10]]


def offer_for(node: Node) -> str:
    """Return the version that the node should have, or an empty text where it should stay as it is."""
    try:
        present = rules.version_order(node.agent_version)
    except rules.ReleaseInvalid:
        return ""
    for offer in offers():
        if offer.order > present and rules.is_offered(
            node_class=node.node_class,
            node=node.public_id,
            version=offer.version,
            ring=offer.ring,
            percent=offer.percent,
        ):
            return offer.version
    return ""


def spread() -> Mapping[str, Spread]:
    """Return how far each version has come."""
    living = Node.objects.exclude(state=NodeState.RETIRED)
    running = dict(living.order_by("agent_version").values_list("agent_version").annotate(Count("id")))
    counted = (
        NodeUpdates.objects.exclude(tried="")
        .order_by("tried")
        .values_list("tried")
        .annotate(total=Count("node"), failed=Count("node", filter=~Q(code__in=rules.NO_FAULT_CODES)))
    )
    tried = {version: (total, failed) for version, total, failed in counted}
    return {version: Spread(running.get(version, 0), *tried.get(version, (0, 0))) for version in {*running, *tried}}


def held_back() -> int:
    """Return how many nodes' owners hold updates back."""
    return NodeUpdates.objects.filter(policy="held").exclude(node__state=NodeState.RETIRED).count()
