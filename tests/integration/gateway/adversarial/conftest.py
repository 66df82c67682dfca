"""A gateway with an honest node for one customer, and for another only nodes that mean harm."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import httpx
import pytest

from portal.nodes.models import Node, NodeClass
from portal.trust.models import NodeEvidence
from tests.fakes import scripts
from tests.fakes.attacks import MESSAGES
from tests.fakes.scripted_node import Script, ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Pool, until

# A breaker opens at the fifth fault of a minute; before that another node takes the part.
_FAULTS_A_NODE = 4


@dataclass
class Arena:
    """Both nodes, both customers."""

    pool: Pool
    gateway: Gateway
    victim: httpx.Client
    neighbour: httpx.Client
    _node: ScriptedNode | None = None
    _row: Node | None = None
    _used: int = 0
    _seen: dict[int, int] = field(default_factory=dict)

    def hostile(self, script: Script) -> ScriptedNode:
        """Return the connected hostile node, which answers with `script`."""
        if self._used >= _FAULTS_A_NODE or not self._is_connected():
            self.retire()
            machine = self.pool.machine(node_class=NodeClass.COMMUNITY)
            self._row, self._used = machine.node, 0
            self._node = self.pool.connect(machine, self.gateway, scripts.honest())
            until("it is routed to", lambda: self.ask(max_tokens=1).status_code == 200)
        self._node.script = script
        self._used += 1
        return self._node

    def _is_connected(self) -> bool:
        """Tell whether the node still serves: the end of what it did last may have closed its tunnel just now."""
        if self._node is None or self._node.is_away.is_set():
            return False
        self._node.script = scripts.honest()
        return self.ask(max_tokens=1).status_code == 200

    def retire(self) -> None:
        """Take the hostile node away."""
        if self._node is not None and self._row is not None:
            self._node.stop()
            self._row.deployments.update(desired="stopped")

    def ask(self, **fields: Any) -> httpx.Response:
        """Ask as the victim, who can only be served by the hostile node."""
        return self.victim.post("/v1/chat/completions", json={"model": MODEL, "messages": MESSAGES} | fields)

    def fresh_evidence(self) -> dict[str, NodeEvidence]:
        """Return by rule what has been recorded of the hostile node since the last look."""
        found: dict[str, NodeEvidence] = {}
        for row in NodeEvidence.objects.filter(node=self._row):
            if row.count > self._seen.get(row.pk, 0):
                self._seen[row.pk] = row.count
                found[row.rule] = row
        return found

    def recorded(self, rule: str) -> NodeEvidence:
        """Wait for new evidence against the rule."""
        return until(f"evidence {rule}\n{self.gateway.log[-2000:]}", lambda: self.fresh_evidence().get(rule), 5)

    def ended(self, response: httpx.Response) -> Any:
        """Return the request's one usage record."""
        from portal.metering.models import UsageRecord

        rows = UsageRecord.objects.filter(request_id=UUID(response.headers["x-request-id"]))
        return until("its record", rows.first)

    @property
    def memory_kib(self) -> int:
        """How much memory the gateway uses."""
        assert self.gateway.process is not None
        with open(f"/proc/{self.gateway.process.pid}/status", encoding="ascii") as status:  # noqa: PTH123  a kernel file
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


@pytest.fixture(scope="module")
def arena(pool: Pool) -> Iterator[Arena]:
    """The honest node is contracted, the hostile one of the community; each customer's key allows one class."""
    gateway = pool.gateway()
    pool.connect(pool.machine(), gateway, scripts.honest(pause_s=0.01))
    victim = pool.new_key(pool.customer, node_classes=("community",))
    until("the key is known", lambda: _knows(pool, gateway, victim))
    with pool.client(gateway, key=victim) as one, pool.client(gateway) as two:
        made = Arena(pool, gateway, one, two)
        body = {"model": MODEL, "messages": MESSAGES}
        until("the honest node is routed to", lambda: two.post("/v1/chat/completions", json=body).status_code == 200)
        yield made


@pytest.fixture
def calm(arena: Arena) -> Iterator[None]:
    """While the test runs, a neighbour's stream on the honest node runs too, and reaches its proper end."""
    body = {"model": MODEL, "messages": MESSAGES, "stream": True}
    with arena.neighbour.stream("POST", "/v1/chat/completions", json=body) as response:
        lines = response.iter_lines()
        first = next(lines)
        yield
        text = first + "".join(lines)
    assert response.status_code == 200
    assert text.endswith("data: [DONE]")
    assert arena.neighbour.get("/healthz").status_code == 200


def _knows(pool: Pool, gateway: Gateway, key: str) -> bool:
    with pool.client(gateway, key=key) as client:
        return client.get("/v1/models").status_code == 200
