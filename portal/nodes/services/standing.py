"""Asks where a live node stands and moves it there."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from portal.integrations import bus
from portal.nodes.models import Deployment, DesiredState, EngineKind, Node, NodeState
from portal.nodes.rules import classes, states
from portal.nodes.rules.standing import DeploymentFact, Facts, standing
from portal.nodes.selectors import checks
from portal.nodes.services import moves
from portal.providers.models import ProviderKind
from portal.providers.selectors import agreements


def welcome(*, node: Node, now: datetime) -> None:
    """Move a locked node whose agent has just opened a session to `checking`, unless it is live already."""
    if node.state in states.LIVE_STATES:
        bus.announce("nodes", node.public_id)
        return
    node.last_heartbeat_at = now
    node.save(update_fields=["last_heartbeat_at"])
    moves.move(node=node, to=moves.Move(state=NodeState.CHECKING, code="session_opened"), now=now)


@dataclass(frozen=True, slots=True)
class Found:
    """What this heartbeat said of the machine, and the deployments as they are with it."""

    gpu_errors: tuple[str, ...]
    has_gpus: bool
    deployments: Sequence[Deployment]


def settle(*, node: Node, found: Found, now: datetime) -> None:
    """Move a locked node to where it stands now, and keep its class in step with its provider."""
    _follow_provider(node)
    if node.state in states.CLOSED_STATES:
        return
    stands = standing(facts_of(node, found=found, now=now))
    if stands.state != node.state:
        moves.move(node=node, to=moves.Move(state=stands.state, code=stands.code, cause=stands.cause), now=now)
    elif stands.code != node.state_code:
        node.state_code, node.state_cause, node.state_reason = stands.code, stands.cause, ""
        node.save(update_fields=["state_code", "state_cause", "state_reason"])


def facts_of(node: Node, *, found: Found, now: datetime) -> Facts:
    """Gather what decides where the node stands."""
    return Facts(
        provider_state=node.provider.state,
        is_agreement_accepted=agreements.has_accepted(provider=node.provider, now=now),
        is_drain_wanted=node.is_drain_wanted or node.agent_wish != "serve",
        is_inventory_known=_is_inventory_known(node, found),
        gpu_errors=found.gpu_errors,
        owner_code=_owner_code(node),
        failed_checks=checks.enforced_failures(node=node),
        deployments=tuple(
            DeploymentFact(
                is_wanted=row.desired == DesiredState.RUNNING,
                observed=row.observed,
                code=row.observed_code,
                running=row.running,
            )
            for row in found.deployments
        ),
    )


def _owner_code(node: Node) -> str:
    """Why the owner keeps the machine; a drain that the portal itself was asked for has no other reason."""
    owner = node.load.get("owner")
    return str(owner.get("code", "")) if owner and not node.is_drain_wanted else ""


def _is_inventory_known(node: Node, found: Found) -> bool:
    """Tell whether GPUs are reported, or none is owed: on house nodes, simulated ones and for external engines."""
    if node.is_simulated or node.provider.kind == ProviderKind.HOUSE:
        return True
    wanted = [row for row in found.deployments if row.desired == DesiredState.RUNNING]
    return found.has_gpus or any(row.engine == EngineKind.EXTERNAL for row in wanted)


def _follow_provider(node: Node) -> None:
    derived = classes.node_class(kind=node.provider.kind, is_identified=node.provider.is_identified)
    if derived != node.node_class:
        node.node_class = derived
        node.save(update_fields=["node_class"])
        bus.announce("nodes", node.public_id)
