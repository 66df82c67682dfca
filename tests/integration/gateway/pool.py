"""Real gateway processes over the test database, a paying customer and nodes of the wire protocol."""

import base64
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import Popen
from typing import Any

import httpx
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.conf import settings
from django.db import connection

from portal.accounts.models import Organization
from portal.accounts.rules.key_terms import KeyTerms
from portal.accounts.rules.terms import Budget
from portal.accounts.services import keys
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import prices
from portal.catalog.models import ArtefactKind, CatalogModel
from portal.catalog.services import artefacts, models
from portal.core import clock
from portal.core.money import NANO_PER_UNIT
from portal.integrations import bus
from portal.metering.models import UsageRecord
from portal.nodes.models import Deployment, EngineKind, Node, NodeClass, NodeState, ObservedState
from portal.nodes.rules import signatures
from portal.nodes.services import sessions
from portal.sandbox import processes
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import TERMS, ServingNodeFactory, buy
from tests.fakes.scripted_node import Script, ScriptedNode

MODEL = "acme/chat-8b"
_REPOSITORY = Path(__file__).parents[3]
_DEMO_MODEL = _REPOSITORY / "portal" / "sandbox" / "demo_model"


def until(what: str, probe: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """Return the probe's first true value."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = probe()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")


@dataclass
class Gateway:
    """One gateway process of the test."""

    index: int
    folder: Path
    port: int = field(default_factory=processes.free_port)
    environ: dict[str, str] = field(default_factory=dict)
    process: Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> str:
        path = self.folder / f"gateway-{self.index}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def environment(self) -> dict[str, str]:
        """Return what any process of this pool is told."""
        database = connection.settings_dict
        return {
            **os.environ,
            "POOLHOUSE_MODE": "local",
            "DATABASE_URL": f"postgresql://{database['USER']}@{database['HOST']}:{database['PORT']}/{database['NAME']}",
            "REDIS_URL": settings.REDIS_URL,
            "SECRET_KEY": settings.SECRET_KEY,
        }

    def own_environment(self) -> dict[str, str]:
        """Return what this process alone is told."""
        return {
            "DJANGO_SETTINGS_MODULE": "portal.settings.gateway",
            "GATEWAY_INDEX": str(self.index),
            "GATEWAY_BIND": f"127.0.0.1:{self.port}",
            "GATEWAY_SPOOL_DIR": str(self.folder / "spool"),
            "GATEWAY_PEER_DIR": str(self.folder / "p"),
            "GATEWAY_DRAIN_S": "5",
        }

    def start(self) -> "Gateway":
        """Start the process and wait until it is ready."""
        environ = {**self.environment(), **self.own_environment(), **self.environ}
        argv = [sys.executable, "-m", "portal.gateway"]
        self.process = processes.start(argv, log=self.folder / f"gateway-{self.index}.log", environ=environ)
        until(f"gateway {self.index} is ready: {self.log[-2000:]}", self.is_ready, 30)
        return self

    def is_ready(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log[-4000:]
        return self.answers_ready()

    def answers_ready(self) -> bool:
        """Tell whether /readyz says so."""
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        assert self.process is not None
        return processes.stop(self.process, timeout_s=15)


@dataclass
class Machine:
    """An enrolled node and the key by which it opens sessions."""

    node: Node
    secret: Ed25519PrivateKey

    def session(self) -> str:
        """Begin a new generation and return its token."""
        now = clock.now()
        made = sessions.challenge(node=self.node.public_id, now=now)
        message = signatures.session_message(
            nonce=made.nonce, node=self.node.public_id, public_url=settings.PUBLIC_URL, protocol=1
        )
        request = sessions.SessionRequest(
            node=self.node.public_id,
            nonce=made.nonce,
            public_url=settings.PUBLIC_URL,
            protocol=1,
            instance="test",
            signature=base64.b64encode(self.secret.sign(message)).decode(),
        )
        token = sessions.open_session(request=request, bearer="", address=None, now=now).token
        Node.objects.filter(pk=self.node.pk).update(state=NodeState.SERVING)
        bus.announce("nodes", self.node.public_id)
        return token


class Pool:
    """The world of these tests. Rows are committed, so that the gateway processes see them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gateways: list[Gateway] = []
        self.nodes: list[ScriptedNode] = []
        self.model = self._model()
        self.customer = self.organization(NANO_PER_UNIT * 100)
        self.key = self.new_key(self.customer)

    def organization(self, credit_nano: int) -> Organization:
        made: Organization = OrganizationFactory()
        if credit_nano:
            buy(made, amount=credit_nano, now=clock.now())
        return made

    def new_key(self, organization: Organization, **terms: Any) -> str:
        """Return the text of a new key without a budget of its own, unless the terms say otherwise."""
        wanted = KeyTerms(**{"name": "test", "budget": Budget()} | terms)
        made = keys.create_key(
            organization=organization, terms=wanted, created_by=None, actor=SYSTEM_ACTOR, now=clock.now()
        )
        return made.text

    def known_key(self, gateway: Gateway, organization: Organization, **terms: Any) -> str:
        """Return the text of a new key once the gateway knows it."""
        key = self.new_key(organization, **terms)
        with self.client(gateway, key) as client:
            until("the key is known", lambda: client.get("/v1/models").status_code == 200)
        return key

    def machine(self, *, node_class: str = NodeClass.CONTRACTED, concurrency: int = 32) -> Machine:
        secret = Ed25519PrivateKey.generate()
        public = base64.b64encode(secret.public_key().public_bytes_raw()).decode()
        node = ServingNodeFactory(
            node_class=node_class, public_key=public, state=NodeState.SERVING, country="DE", enrolled_at=clock.now()
        )
        Deployment.objects.create(
            node=node,
            model=self.model,
            engine=EngineKind.VLLM,
            observed=ObservedState.READY,
            max_concurrency=concurrency,
            created_at=clock.now(),
        )
        bus.announce("nodes", node.public_id)
        return Machine(node=node, secret=secret)

    def gateway(self, index: int = 0, **environ: str) -> Gateway:
        gateway = Gateway(index=index, folder=self.folder, environ=environ)
        self.gateways.append(gateway)
        return gateway.start()

    def dial(self, machine: Machine, gateway: Gateway, script: Script, **more: Any) -> ScriptedNode:
        """Connect the machine's agent to this process, whatever becomes of it."""
        url = f"ws://127.0.0.1:{gateway.port}/agent/v1/tunnel"
        token = more.pop("token", "") or machine.session()
        return ScriptedNode(url=url, token=token, model=MODEL, script=script, **more).start()

    def connect(self, machine: Machine, gateway: Gateway, script: Script, **more: Any) -> ScriptedNode:
        """Connect the machine's agent to this process and wait until every process could use it."""
        node = self.dial(machine, gateway, script, **more)
        self.nodes.append(node)
        until("the tunnel is claimed", lambda: self._owner(machine) == gateway.index)
        time.sleep(0.3)  # every process polls or hears of it within this time
        return node

    def client(self, gateway: Gateway, key: str | None = None, **options: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {key or self.key}"}
        return httpx.Client(base_url=gateway.url, headers=headers, timeout=30, **options)

    def record(self, request_id: str, outcome: str = "completed") -> UsageRecord:
        """Return the usage row of the request's attempt that ended so, once it has been shipped."""
        rows = UsageRecord.objects.filter(request_id=request_id, outcome=outcome)
        return until(f"the record {outcome}", rows.first)

    def disconnect(self) -> None:
        """Stop all nodes."""
        for node in self.nodes:
            node.stop()
        self.nodes.clear()

    def stop(self) -> None:
        self.disconnect()
        for gateway in self.gateways:
            if gateway.process is not None and gateway.process.poll() is None:
                gateway.stop()

    def _owner(self, machine: Machine) -> int | None:
        from portal.nodes.models import Tunnel

        row = Tunnel.objects.filter(node=machine.node).first()
        return int(row.process.split("@")[1].split(".")[0]) if row else None

    def _model(self) -> CatalogModel:
        now = clock.now()
        kinds = {ArtefactKind.TOKENIZER: "tokenizer.json", ArtefactKind.CHAT_TEMPLATE: "chat_template.jinja"}
        tokenizer, template = (
            artefacts.add_artefact(kind=kind, content=(_DEMO_MODEL / name).read_bytes(), now=now)
            for kind, name in kinds.items()
        )
        spec = models.ModelSpec(
            public_id=MODEL,
            name="Chat 8B",
            source="acme/chat",
            revision="1",
            artefact_digest="a" * 64,
            licence="apache-2.0",
            is_commercial_use_allowed=True,
            context_tokens=2_048,
            max_output_tokens=512,
            default_output_tokens=64,
            dtype="bfloat16",
            tokenizer=tokenizer.sha256,
            chat_template=template.sha256,
            supported_parameters=["tools", "response_format", "structured_outputs", "top_k"],
            first_token_timeout_s=3,
        )
        models.create_model(spec=spec, actor=SYSTEM_ACTOR, now=now)
        model = models.activate_model(public_id=MODEL, actor=SYSTEM_ACTOR, now=now)
        prices.set_price(model=model, terms=TERMS, actor=SYSTEM_ACTOR, now=now)
        return model
