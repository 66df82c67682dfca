"""Customers with credit and providers with accounts at Stripe, and all that happens between them in a round."""

import random
from datetime import datetime, timedelta
from itertools import islice

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.rules.differences import Difference
from portal.billing.rules.leasing import Ask
from portal.billing.rules.rating import charge_nano
from portal.billing.services import leases, maturity, posting, reconcile, reserve
from portal.core import clock
from portal.core.money import NANO_PER_UNIT, split_share
from portal.metering.rules.usage_rows import UsageRow
from portal.metering.services import ingest, partitions
from portal.nodes.models import Node
from portal.payouts.models import Payout, PayoutState
from portal.payouts.selectors import reconcile as payout_checks
from portal.payouts.services import approvals, drafts, runs
from tests.factories import metering
from tests.factories.accounts import UserFactory
from tests.factories.billing import Market, ServingNodeFactory
from tests.factories.payouts import Shop

SHARE_BPS = 8000
_CREDIT_NANO = 2_000_000 * NANO_PER_UNIT


class Fair:
    """The pool's people. `now` is when the next round's requests are served."""

    def __init__(self, shop: Shop, *, customers: int, providers: int, draw: random.Random) -> None:
        self.shop = shop
        self.draw = draw
        self.now = clock.now()
        self.operator = UserFactory(is_operator=True)
        self.nodes: list[Node] = [self._node() for _ in range(providers)]
        first = Market(node=self.nodes[0], paid_nano=_CREDIT_NANO, lease_nano=0)
        rest = [
            Market(node=self.nodes[0], model=first.model, paid_nano=_CREDIT_NANO, lease_nano=0)
            for _ in range(customers - 1)
        ]
        self.markets = [first, *rest]
        # What the customers paid lies at Stripe, as far as the ledger is concerned.
        self.shop.fund(customers * _CREDIT_NANO // 10_000_000)

    def _node(self) -> Node:
        node: Node = ServingNodeFactory()
        self.shop.onboard(node.provider, action="complete", now=self.now)
        return node

    def deliver(self, records: int) -> list[UsageRow]:
        """Rate so many requests of random sizes at random nodes."""
        spools = {market: metering.spool(now=self.now) for market in range(len(self.markets))}
        held = {number: self._lease(number, spools[number].pk) for number in spools}
        return [self._request(number % len(self.markets), number, spools, held) for number in range(records)]

    def _lease(self, number: int, spool_id: int) -> int:
        ask = Ask(wanted_nano=_CREDIT_NANO // 4, minimum_nano=1, idle_nano={})
        granted = leases.grant(
            organization_id=self.markets[number].customer.pk, spool_id=spool_id, ask=ask, now=self.now
        )
        return granted.leases[0].lease_id

    def _request(self, number: int, sequence: int, spools: dict, held: dict) -> UsageRow:
        market, node = self.markets[number], self.draw.choice(self.nodes)
        prompt, completion = self.draw.randint(1_000, 600_000), self.draw.randint(1, 4_000)
        charge = charge_nano(price=market.price, prompt=prompt, cached=0, completion=completion)
        provider_nano, platform_nano = split_share(charge, SHARE_BPS)
        return metering.usage_row(
            opened_at=self.now,
            spool_id=spools[number].public_id,
            spool_seq=sequence + 1,
            organization_id=market.customer.pk,
            api_key_id=market.key.pk,
            provider_id=node.provider_id,
            node_id=node.pk,
            model_id=market.model.pk,
            price_version_id=market.price.pk,
            share_bps=SHARE_BPS,
            lease_ids=[held[number]],
            prompt_tokens=prompt,
            completion_tokens=completion,
            hold_nano=charge,
            charge_nano=charge,
            provider_nano=provider_nano,
            platform_nano=platform_nano,
        )

    def ship(self, rows: list[UsageRow], *, batch: int) -> None:
        """Store the records as gateways ship them: in batches, each from one spool."""
        partitions.ensure(today=self.now.date())
        by_spool: dict[str, list[UsageRow]] = {}
        for row in rows:
            by_spool.setdefault(row.spool_id, []).append(row)
        for spool, mine in by_spool.items():
            left = iter(mine)
            while part := list(islice(left, batch)):
                ingest.ingest(spool=spool, rows=part, now=self.now + timedelta(minutes=1))

    def post(self, now: datetime) -> None:
        """Book all that is queued."""
        while posting.post_all(now=now + timedelta(minutes=5)).taken:
            pass

    def mature(self, later: datetime) -> None:
        """Let every earning mature, and what was kept back of it."""
        while maturity.mature(now=later):
            pass
        while reserve.release_due(now=later + timedelta(days=200)):
            pass

    def draft(self, later: datetime) -> int:
        """Draft a payout to everyone and approve each; return how many."""
        run = drafts.draft_payouts(now=later, actor=SYSTEM_ACTOR)
        for payout in run.payouts:
            approvals.approve(payout_public_id=payout.public_id, approver=self.operator, actor=SYSTEM_ACTOR, now=later)
        return len(run.payouts)

    def send(self, later: datetime) -> None:
        """Send all that is approved."""
        while runs.run(now=later).sent:
            pass

    def sent(self) -> int:
        """Return how many payouts are in their providers' accounts."""
        return Payout.objects.filter(state=PayoutState.TRANSFERRED).count()

    def check(self, later: datetime) -> list[Difference]:
        """Ask everything that the nightly check asks."""
        return [*reconcile.differences(now=later), *payout_checks.differences(now=later)]
