"""Asks where a live node stands and moves it there."""

from datetime import datetime

from portal.integrations import bus
from portal.nodes.models import Deployment, DesiredState, EngineKind, Gpu, Node, NodeState
from portal.nodes.rules import classes, states
from portal.nodes.rules.standing import DeploymentFact, Facts, standing
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


def settle(*, node: Node, gpu_errors: tuple[str, ...], now: datetime) -> None:
    """Move a locked node to where it stands now, and keep its class in step with its provider."""
    _follow_provider(node)
    if node.state in states.CLOSED_STATES:
        return
    found = standing(facts_of(node, gpu_errors=gpu_errors, now=now))
    if found.state != node.state:
        moves.move(node=node, to=moves.Move(state=found.state, code=found.code, cause=found.cause), now=now)
    elif found.code != node.state_code:
        node.state_code, node.state_cause, node.state_reason = found.code, found.cause, ""
        node.save(update_fields=["state_code", "state_cause", "state_reason"])


def facts_of(node: Node, *, gpu_errors: tuple[str, ...], now: datetime) -> Facts:
    """Gather what decides where the node stands."""
    deployments = list(Deployment.objects.filter(node=node))
    return Facts(
        provider_state=node.provider.state,
        is_agreement_accepted=agreements.has_accepted(provider=node.provider, now=now),
        is_drain_wanted=node.is_drain_wanted or node.agent_wish != "serve",
        is_inventory_known=_is_inventory_known(node, deployments),
        gpu_errors=gpu_errors,
        owner_code=_owner_code(node),
        deployments=tuple(
            DeploymentFact(
                is_wanted=row.desired == DesiredState.RUNNING,
                observed=row.observed,
                code=row.observed_code,
                running=row.running,
            )
            for row in deployments
        ),
    )


def _owner_code(node: Node) -> str:
    """Why the owner keeps the machine; a drain that the portal itself was asked for has no other reason."""
    owner = node.load.get("owner")
    return str(owner.get("code", "")) if owner and not node.is_drain_wanted else ""


def _is_inventory_known(node: Node, deployments: list[Deployment]) -> bool:
    """Tell whether GPUs are reported, or none is owed: on house nodes, simulated ones and for external engines."""
    if node.is_simulated or node.provider.kind == ProviderKind.HOUSE:
        return True
    if any(row.engine == EngineKind.EXTERNAL and row.desired == DesiredState.RUNNING for row in deployments):
        return True
    return Gpu.objects.filter(node=node, is_present=True).exists()


def _follow_provider(node: Node) -> None:
    derived = classes.node_class(kind=node.provider.kind, is_identified=node.provider.is_identified)
    if derived != node.node_class:
        node.node_class = derived
        node.save(update_fields=["node_class"])
        bus.announce("nodes", node.public_id)
