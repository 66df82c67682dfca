"""A gateway process's money parts without its sockets: spool, credit book and settlement over the test database."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

from django.db import connections

from portal.accounts.models import ApiKey
from portal.billing.models import LedgerAccount, PriceVersion
from portal.catalog.models import CatalogModel
from portal.core import clock, ids
from portal.gateway.contracts import Attempt, Hold, KeyEntry, ModelEntry, NodeEntry, RequestFacts, Settled
from portal.gateway.credit import CreditBook
from portal.gateway.settlement import Settlement
from portal.gateway.snapshot import SnapshotStore
from portal.gateway.spool import Spool
from portal.gateway.threads import DatabaseThreads
from portal.gateway.tokens import TokenCounters
from portal.nodes.models import Node
from tests.factories import gateway as entries
from tests.factories.billing import Market, budget_of

T = TypeVar("T")
DEMO = Path(__file__).parents[3] / "portal" / "sandbox" / "demo_model"
TOKENIZER, TEMPLATE = "tokenizer", "template"
MESSAGES = [{"role": "user", "content": "Tell me of the sea."}]


def read_demo(sha256: str) -> bytes:
    """Serve the committed demo model under two names."""
    return (DEMO / {TOKENIZER: "tokenizer.json", TEMPLATE: "chat_template.jinja"}[sha256]).read_bytes()


def database_url() -> str:
    """Return the URL of the database that the test itself uses."""
    values = connections["default"].settings_dict
    return f"postgresql://{values['USER']}@{values['HOST']}:{values['PORT']}/{values['NAME']}"


def run(scenario: Callable[[], Awaitable[T]]) -> T:
    """Run an async scenario to its end."""
    return asyncio.run(scenario())


async def until(what: str, probe: Callable[[], Any], timeout_s: float = 10.0) -> Any:
    """Return the probe's first true value; the probe runs in a thread."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        found = await asyncio.to_thread(_closing, probe)
        if found:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")


def _closing(probe: Callable[[], Any]) -> Any:
    try:
        return probe()
    finally:
        connections.close_all()


@dataclass
class Goods:
    """What is sold in a test, as the snapshot shows it."""

    market: Market
    key: KeyEntry = field(init=False)
    model: ModelEntry = field(init=False)
    node: NodeEntry = field(init=False)

    def __post_init__(self) -> None:
        market = self.market
        self.key = key_entry(market.key)
        self.model = entries.model_entry(
            id=market.model.pk,
            tokenizer_sha256=TOKENIZER,
            template_sha256=TEMPLATE,
            prices=(price_entry(market.price),),
        )
        self.node = entries.node_entry(
            id=market.node.pk,
            provider_id=market.provider.pk,
            organization_id=market.provider.organization_id,
            node_class="community",
        )


def name_goods(goods: Goods) -> str:
    """Return what another process needs to sell the same."""
    market = goods.market
    return ",".join(str(row.pk) for row in (market.key, market.model, market.node, market.price))


def goods_of(names: str) -> Goods:
    """Return the goods that `name_goods` named, in another process."""
    key, model, node, price = (int(name) for name in names.split(","))
    market = SimpleNamespace(
        key=ApiKey.objects.select_related("organization").get(pk=key),
        model=CatalogModel.objects.get(pk=model),
        node=Node.objects.select_related("provider").get(pk=node),
        price=PriceVersion.objects.get(pk=price),
    )
    market.provider = market.node.provider
    return Goods(market)


def key_entry(row: ApiKey, **values: object) -> KeyEntry:
    """Return a key as the snapshot would hold it."""
    return entries.key_entry(
        id=row.pk,
        public_id=row.public_id,
        organization_id=row.organization_id,
        organization=row.organization.public_id,
        budgets=(budget_of(row),) if row.budget_cap_nano else (),
        **values,
    )


def price_entry(row: PriceVersion):
    """Return a price as the snapshot would hold it."""
    return entries.price_entry(
        id=row.pk,
        version=row.version,
        prompt_nano_per_mtok=row.prompt_nano_per_mtok,
        cached_nano_per_mtok=row.cached_nano_per_mtok,
        completion_nano_per_mtok=row.completion_nano_per_mtok,
        request_nano=row.request_nano,
    )


class Process:
    """The money parts of one gateway process."""

    def __init__(
        self, folder: Path, *, index: int = 0, goods: Goods, read_artefact=read_demo, is_listening: bool = False
    ) -> None:
        self.goods = goods
        self.threads = DatabaseThreads()
        self.store = SnapshotStore(f"gateway@{index}", direct_url=database_url()) if is_listening else None
        self.spool = Spool(folder=folder, index=index, process=f"gateway@{index} on test")
        self.credit = CreditBook(spool=self.spool, threads=self.threads, store=self.store)
        self.counters = TokenCounters(read_artefact=read_artefact)
        self.settlement = Settlement(spool=self.spool, credit=self.credit, threads=self.threads, counters=self.counters)

    async def start(self) -> "Process":
        if self.store is not None:
            await self.store.start()
        await self.credit.start()
        await self.settlement.start()
        return self

    async def stop(self) -> None:
        if self.store is not None:
            await self.store.stop()
        await self.credit.stop()
        await self.settlement.stop()
        self.threads.stop()

    async def place(self, nano: int, *, key: KeyEntry | None = None) -> Hold:
        return await self.credit.place(key=key or self.goods.key, nano=nano, now=clock.now())

    def facts(self, *, nano: int, body: dict | None = None, **values: object) -> RequestFacts:
        given = {
            "request_id": ids.uuid7(),
            "client_request_id": "",
            "key": self.goods.key,
            "model": self.goods.model,
            "price": self.goods.model.prices[0],
            "endpoint": "chat/completions",
            "is_stream": True,
            "body": body or {"messages": MESSAGES},
            "prompt_bound_tokens": 200,
            "output_bound_tokens": 256,
            "hold_nano": nano,
            "opened_at": time.time(),
        }
        return RequestFacts(**given | values)

    async def open(
        self, hold: Hold, *, number: int = 1, facts: RequestFacts | None = None, **values: object
    ) -> Attempt:
        return await self.settlement.open(
            facts=facts or self.facts(nano=hold.nano, **values),
            hold=hold,
            node=self.goods.node,
            number=number,
            routing={"by": "only"},
        )

    async def serve(self, *, nano: int = 1_000_000, text: str = "The sea is deep and blue.", **claims: int) -> Settled:
        """Serve one request whole."""
        hold = await self.place(nano)
        attempt = await self.open(hold)
        deliver(attempt, text, **claims)
        return await self.settlement.close(attempt, outcome="completed")


@asynccontextmanager
async def running(*processes: Process):
    """Start processes and stop them whatever happens."""
    for process in processes:
        await process.start()
    try:
        yield processes
    finally:
        for process in processes:
            await process.stop()


def deliver(attempt: Attempt, text: str, *, finished: int = 1, **claims: int) -> None:
    """Hand text to the customer and take the node's claim."""
    attempt.first_token_at = time.time()
    attempt.deliver(text)
    attempt.finished_choices = finished
    for name, value in claims.items():
        setattr(attempt.claim, name, value)


def credit_account(market: Market) -> LedgerAccount:
    """Return the customer's credit account as it is now."""
    return LedgerAccount.objects.get(code=f"customer_credit:{market.customer.public_id}")
