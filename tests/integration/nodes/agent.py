"""An agent as the tests play it: it signs for real and speaks to the services directly."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta

from django.conf import settings

from portal.nodes.models import Node
from portal.nodes.rules.beats import Beat, DeploymentClaim, GpuClaim, GpuError
from portal.nodes.services import enrolment, heartbeat, sessions
from tests.factories.nodes import AgentKey

GPU = GpuClaim(
    uuid="GPU-5b6d6a7e-0000-0000-0000-000000000001",
    index=0,
    name="NVIDIA GeForce RTX 4090",
    memory_bytes=25_757_220_864,
    driver="570.133.20",
    compute_capability="8.9",
)


@dataclass
class Agent:
    """One process with a key."""

    key: AgentKey
    instance: str = "i-1"
    address: str = "192.0.2.7"
    node: Node | None = None
    token: str = ""
    generation: int = 0
    gpus: tuple[GpuClaim, ...] = field(default=(GPU,))

    def enrol(self, token: str, now: datetime, **fields) -> enrolment.Enrolled:
        facts = {"name": "rack", "agent_version": "0.1.0", "protocol": 1, **fields}
        joined = enrolment.enrol_node(
            token=token,
            enrolment=enrolment.Enrolment(public_key=self.key.public, **facts),
            address=self.address,
            now=now,
        )
        self.node = joined.node
        return joined

    def request(self, now: datetime, **changes) -> sessions.SessionRequest:
        nonce = sessions.challenge(node=self.node.public_id, now=now).nonce
        facts = {
            "node": self.node.public_id,
            "nonce": nonce,
            "public_url": settings.PUBLIC_URL,
            "protocol": 1,
            "instance": self.instance,
            "signature": self.key.sign_session(nonce=nonce, node=self.node.public_id, public_url=settings.PUBLIC_URL),
        }
        return sessions.SessionRequest(**{**facts, **changes})

    def open(self, now: datetime, *, bearer: str = "") -> sessions.Session:
        session = sessions.open_session(request=self.request(now), bearer=bearer, address=self.address, now=now)
        self.token, self.generation = session.token, session.generation
        return session

    def beat(
        self,
        now: datetime,
        *,
        wish: str = "serve",
        offset: timedelta = timedelta(0),
        deployments: tuple[DeploymentClaim, ...] = (),
        gpu_errors: tuple[GpuError, ...] = (),
        **said: object,
    ) -> heartbeat.Answer:
        facts = {
            "sent_at": now + offset,
            "agent_version": "0.1.0",
            "wish": wish,
            "host": {"uptime_s": 10},
            "gpus": self.gpus,
            "gpu_errors": gpu_errors,
            "deployments": deployments,
            **said,
        }
        return heartbeat.record_heartbeat(token=self.token, beat=Beat(**facts), address=self.address, now=now)

    def twin(self, instance: str, address: str = "198.51.100.9") -> "Agent":
        """Return a second process with the same key and node: a copied disk."""
        return Agent(key=self.key, instance=instance, address=address, node=self.node)


def ready(deployment, *, running: int = 0, state: str = "ready", code: str = "") -> DeploymentClaim:
    """Return what a node says of a deployment."""
    return DeploymentClaim(
        deployment=deployment.public_id, state=state, code=code, detail="", running=running, waiting=0
    )
