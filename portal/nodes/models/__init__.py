"""Nodes: machines that serve, their GPUs, how they join and what they should run."""

from portal.nodes.models.deployments import Deployment, DesiredState, EngineKind, ObservedState
from portal.nodes.models.enrolment import EnrolmentToken, NodeSession, SessionChallenge
from portal.nodes.models.guests import NodeGuest
from portal.nodes.models.nodes import Gpu, Node, NodeClass, NodeEvent, NodeOrigin, NodeState
from portal.nodes.models.tunnels import Tunnel

__all__ = [
    "Deployment",
    "DesiredState",
    "EngineKind",
    "EnrolmentToken",
    "Gpu",
    "Node",
    "NodeClass",
    "NodeEvent",
    "NodeGuest",
    "NodeOrigin",
    "NodeSession",
    "NodeState",
    "ObservedState",
    "SessionChallenge",
    "Tunnel",
]
