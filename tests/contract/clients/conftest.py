"""One gateway and one node a module, and a model with room for what coding agents send."""

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import httpx
import pytest

from portal.catalog.models import CatalogModel
from portal.metering.models import UsageRecord
from tests.contract.clients.assistant import assistant
from tests.fakes.scripted_node import ScriptedNode
from tests.integration.gateway.conftest import _django_db_helper, pool
from tests.integration.gateway.pool import Gateway, Pool, until

__all__ = ["_django_db_helper", "pool"]

_CONTEXT_TOKENS = 131_072
_PARAMETERS = ["chat_template_kwargs.enable_thinking", "reasoning_effort", "response_format", "tools", "top_k"]


class Closable(Protocol):
    """A client with connections."""

    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)


@dataclass
class Spoken:
    """A pool that customers speak to."""

    pool: Pool
    gateway: Gateway
    node: ScriptedNode
    opened: list[Closable] = field(default_factory=list)

    def opening(self, client: C) -> C:
        """Return the client, which is closed when the test ends."""
        self.opened.append(client)
        return client

    @property
    def url(self) -> str:
        return self.gateway.url

    @property
    def body(self) -> dict[str, Any]:
        """What the node was sent last."""
        return self.node.replies[-1].body

    def key(self, credit_nano: int | None = None, **terms: Any) -> str:
        """Return a new key that every process knows."""
        organization = self.pool.customer if credit_nano is None else self.pool.organization(credit_nano)
        text = self.pool.new_key(organization, **terms)
        until("the key is known", lambda: self._models(text).status_code == 200, 5)
        return text

    def record(self, answer_id: str, outcome: str = "completed") -> UsageRecord:
        """Return the usage row of the request that this answer's id names."""
        request_id = uuid.UUID(answer_id.removeprefix("chatcmpl-").rpartition("_")[2])
        return self.pool.record(str(request_id), outcome)

    def _models(self, key: str) -> httpx.Response:
        return httpx.get(f"{self.url}/v1/models", headers={"x-api-key": key})


@pytest.fixture(autouse=True)
def _closing(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    if "spoken" not in request.fixturenames:
        return
    spoken: Spoken = request.getfixturevalue("spoken")
    while spoken.opened:
        spoken.opened.pop().close()


@pytest.fixture(scope="module")
def spoken(pool: Pool) -> Iterator[Spoken]:
    """The pool with a gateway and a node; the gateway's log is free of faults at the end."""
    CatalogModel.objects.filter(pk=pool.model.pk).update(
        context_tokens=_CONTEXT_TOKENS, max_output_tokens=32_768, supported_parameters=_PARAMETERS
    )
    gateway = pool.gateway()
    node = pool.connect(pool.machine(), gateway, assistant)
    yield Spoken(pool, gateway, node)
    assert "Traceback" not in gateway.log, gateway.log
