"""Nodes: machines that serve, their GPUs, how they join and what they should run."""

from portal.nodes.models.checks import (
    OPEN_ROUNDS,
    CheckMode,
    CheckPolicy,
    CheckResult,
    CheckRound,
    Opinion,
    ReferenceFigure,
    RoundReason,
    RoundState,
    Verdict,
)
from portal.nodes.models.costs import HouseCost
from portal.nodes.models.deployments import ChosenBy, Deployment, DesiredState, EngineKind, ObservedState
from portal.nodes.models.engines import EnginePin
from portal.nodes.models.enrolment import EnrolmentToken, NodeSession, SessionChallenge
from portal.nodes.models.guests import NodeGuest
from portal.nodes.models.nodes import Gpu, Node, NodeClass, NodeEvent, NodeOrigin, NodeState
from portal.nodes.models.placement import (
    ModelPlacement,
    NodePlacement,
    PlacementMode,
    PlacementPolicy,
    PlacementRound,
    PlacementSwitch,
)
from portal.nodes.models.releases import AgentRelease, NodeUpdates, ReleaseRing, ReleaseState
from portal.nodes.models.silences import MassSilence
from portal.nodes.models.tunnels import Tunnel

__all__ = [
    "OPEN_ROUNDS",
    "AgentRelease",
    "CheckMode",
    "CheckPolicy",
    "CheckResult",
    "CheckRound",
    "ChosenBy",
    "Deployment",
    "DesiredState",
    "EngineKind",
    "EnginePin",
    "EnrolmentToken",
    "Gpu",
    "HouseCost",
    "MassSilence",
    "ModelPlacement",
    "Node",
    "NodeClass",
    "NodeEvent",
    "NodeGuest",
    "NodeOrigin",
    "NodePlacement",
    "NodeSession",
    "NodeState",
    "NodeUpdates",
    "ObservedState",
    "Opinion",
    "PlacementMode",
    "PlacementPolicy",
    "PlacementRound",
    "PlacementSwitch",
    "ReferenceFigure",
    "ReleaseRing",
    "ReleaseState",
    "RoundReason",
    "RoundState",
    "SessionChallenge",
    "Tunnel",
    "Verdict",
]
