"""Rows of the nodes' room, and keys that sign as an agent does."""

import base64
import hashlib
from dataclasses import dataclass

import factory
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from factory.django import DjangoModelFactory

from portal.nodes.models import (
    Deployment,
    EngineKind,
    EnrolmentToken,
    Gpu,
    Node,
    NodeEvent,
    NodeGuest,
    NodeOrigin,
    NodeSession,
    NodeState,
    ObservedState,
    Tunnel,
)
from portal.nodes.rules import classes, signatures
from portal.providers.models import ProviderKind
from tests.factories.accounts import JOINED, OrganizationFactory
from tests.factories.catalog import CatalogModelFactory
from tests.factories.providers import ProviderFactory


@dataclass(frozen=True)
class AgentKey:
    """An Ed25519 key as an agent holds it."""

    private: Ed25519PrivateKey

    @classmethod
    def of(cls, seed: int) -> "AgentKey":
        return cls(Ed25519PrivateKey.from_private_bytes(hashlib.sha256(f"node {seed}".encode()).digest()))

    @property
    def public(self) -> str:
        raw = self.private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        return base64.b64encode(raw).decode()

    def sign_session(self, *, nonce: str, node: str, public_url: str, protocol: int = 1) -> str:
        message = signatures.session_message(nonce=nonce, node=node, public_url=public_url, protocol=protocol)
        return base64.b64encode(self.private.sign(message)).decode()


class NodeFactory(DjangoModelFactory):
    """A serving node of an approved community provider; its class follows from the provider."""

    class Meta:
        model = Node

    provider = factory.SubFactory(ProviderFactory)
    name = factory.Sequence(lambda n: f"rack-{n}")
    node_class = factory.LazyAttribute(
        lambda row: classes.node_class(kind=row.provider.kind, is_identified=row.provider.is_identified)
    )
    origin = factory.LazyAttribute(
        lambda row: NodeOrigin.OWNED if row.provider.kind == ProviderKind.HOUSE else NodeOrigin.PROVIDER
    )
    country = "DE"
    public_key = factory.Sequence(lambda n: AgentKey.of(1_000_000 + n).public)
    state = NodeState.SERVING
    state_code = "serving"
    state_changed_at = JOINED
    generation = 1
    last_heartbeat_at = JOINED
    enrolled_at = JOINED


class GpuFactory(DjangoModelFactory):
    class Meta:
        model = Gpu

    node = factory.SubFactory(NodeFactory)
    uuid = factory.Sequence(lambda n: f"GPU-{n:08x}-0000-0000-0000-000000000000")
    index = 0
    name = "NVIDIA GeForce RTX 4090"
    memory_bytes = 25_757_220_864
    driver = "570.133.20"
    compute_capability = "8.9"
    first_seen_at = JOINED
    last_seen_at = JOINED


class DeploymentFactory(DjangoModelFactory):
    """A model that runs and is ready."""

    class Meta:
        model = Deployment

    node = factory.SubFactory(NodeFactory)
    model = factory.SubFactory(CatalogModelFactory)
    engine = EngineKind.VLLM
    observed = ObservedState.READY
    observed_at = JOINED
    created_at = JOINED


class EnrolmentTokenFactory(DjangoModelFactory):
    class Meta:
        model = EnrolmentToken

    provider = factory.SubFactory(ProviderFactory)
    public_id = factory.Sequence(lambda n: f"enrol_{n:020d}")
    token_hash = factory.Sequence(lambda n: hashlib.sha256(f"ph-enrol-{n}".encode()).hexdigest())
    label = "rack"
    created_by = None
    created_at = JOINED
    expires_at = factory.LazyAttribute(lambda row: row.created_at.replace(year=row.created_at.year + 1))


class NodeSessionFactory(DjangoModelFactory):
    """A session whose token is `ph-session-<n>`."""

    class Meta:
        model = NodeSession

    node = factory.SubFactory(NodeFactory)
    generation = factory.SelfAttribute("node.generation")
    token_hash = factory.Sequence(lambda n: hashlib.sha256(f"ph-session-{n}".encode()).hexdigest())
    instance = factory.Sequence(lambda n: f"instance-{n}")
    created_at = JOINED
    expires_at = factory.LazyAttribute(lambda row: row.created_at.replace(year=row.created_at.year + 1))


class TunnelFactory(DjangoModelFactory):
    class Meta:
        model = Tunnel

    node = factory.SubFactory(NodeFactory)
    generation = factory.SelfAttribute("node.generation")
    process = "gateway@0"
    peer = "/run/gateway-0.sock"
    connected_at = JOINED
    seen_at = JOINED


class NodeEventFactory(DjangoModelFactory):
    class Meta:
        model = NodeEvent

    node = factory.SubFactory(NodeFactory)
    at = JOINED
    from_state = NodeState.CHECKING
    to_state = NodeState.SERVING
    code = "serving"
    cause = "node"


class NodeGuestFactory(DjangoModelFactory):
    """An organization that a private node is shown to; pass `accepted_at` for one that is served."""

    class Meta:
        model = NodeGuest

    node = factory.SubFactory(NodeFactory, is_private=True)
    organization = factory.SubFactory(OrganizationFactory)
    named_by = "operator"
    named_at = JOINED
