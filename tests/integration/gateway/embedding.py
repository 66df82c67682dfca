"""An embedding model in a pool of these tests, and a node that serves it."""

import httpx

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.services import prices
from portal.catalog.models import CatalogModel, ModelTask
from portal.catalog.services import models
from portal.core import clock
from portal.integrations import bus
from portal.nodes.models import Deployment
from tests.factories.billing import TERMS
from tests.fakes import texts
from tests.fakes.scripted_node import Script, ScriptedNode
from tests.integration.gateway.pool import Gateway, Pool, until

EMBED = "acme/embed"


def connect(
    pool: Pool, gateway: Gateway, script: Script, *, dimensions: int = texts.LENGTH, tokenizer: str = ""
) -> ScriptedNode:
    """Offer the model, and connect a node that serves nothing else."""
    machine = pool.machine()
    Deployment.objects.filter(node=machine.node).update(model=offer(dimensions, tokenizer or pool.model.tokenizer_id))
    bus.announce("nodes", machine.node.public_id)
    url = f"ws://127.0.0.1:{gateway.port}/agent/v1/tunnel"
    node = ScriptedNode(url=url, token=machine.session(), model=EMBED, script=script).start()
    pool.nodes.append(node)
    return node


def until_ready(client: httpx.Client) -> None:
    """Wait until the model is known and its node is there."""
    until("the embedding model is served", lambda: client.get(f"/v1/models/{EMBED}").json().get("is_ready"))


def offer(dimensions: int, tokenizer: str) -> CatalogModel:
    """Return the model, with a price."""
    now = clock.now()
    spec = models.ModelSpec(
        public_id=EMBED,
        name="Embed",
        task=ModelTask.EMBEDDING,
        embedding_dimensions=dimensions,
        source="acme/embed",
        revision="1",
        artefact_digest="b" * 64,
        licence="apache-2.0",
        is_commercial_use_allowed=True,
        context_tokens=512,
        max_output_tokens=1,
        dtype="bfloat16",
        tokenizer=tokenizer,
        first_token_timeout_s=3,
    )
    models.create_model(spec=spec, actor=SYSTEM_ACTOR, now=now)
    made = models.activate_model(public_id=EMBED, actor=SYSTEM_ACTOR, now=now)
    prices.set_price(model=made, terms=TERMS, actor=SYSTEM_ACTOR, now=now)
    return made
