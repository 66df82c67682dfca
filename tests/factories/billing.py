"""A small market: a customer with credit and a key, a priced model, a provider with a node, a spool with a lease."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import factory
from factory.django import DjangoModelFactory

from portal.accounts.models import ApiKey, Organization, Project
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import CreditLease, LedgerTx, PriceVersion
from portal.billing.rules.accounts import Kind
from portal.billing.rules.incoming import Owed
from portal.billing.rules.leasing import Ask
from portal.billing.rules.rating import Terms, charge_nano
from portal.billing.services import credit_templates, grants, leases, ledger, prices
from portal.catalog.models import CatalogModel, ModelState
from portal.core.money import NANO_PER_UNIT, split_share
from portal.gateway.contracts import BudgetTerms
from portal.metering.models import Spool, UsageRecord
from portal.nodes.models import Node, NodeClass
from portal.providers.models import Provider, ProviderKind, ProviderState
from tests.factories import metering
from tests.factories.accounts import ApiKeyFactory, OrganizationFactory

OPENED = datetime(2026, 10, 1, 9, 0, tzinfo=UTC)
DELIVERED = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
TERMS = Terms(prompt_nano_per_mtok=200_000_000, cached_nano_per_mtok=50_000_000, completion_nano_per_mtok=800_000_000)


class PricedModelFactory(DjangoModelFactory):
    class Meta:
        model = CatalogModel

    public_id = factory.Sequence(lambda n: f"acme/priced-{n}")
    name = factory.Sequence(lambda n: f"Chat {n}")
    state = ModelState.ACTIVE
    source = "acme/chat"
    revision = "0" * 40
    artefact_digest = factory.Sequence(lambda n: f"{n:064x}")
    licence = "apache-2.0"
    is_commercial_use_allowed = True
    context_tokens = 8192
    max_output_tokens = 4096
    dtype = "bfloat16"
    created_at = OPENED


class EarningProviderFactory(DjangoModelFactory):
    class Meta:
        model = Provider

    organization = factory.SubFactory(OrganizationFactory)
    kind = ProviderKind.INDEPENDENT
    state = ProviderState.APPROVED
    legal_name = factory.Sequence(lambda n: f"Supplier {n} AG")
    contact_email = "ops@example.com"
    country = "DE"
    is_identified = True
    created_at = OPENED


class ServingNodeFactory(DjangoModelFactory):
    class Meta:
        model = Node

    provider = factory.SubFactory(EarningProviderFactory)
    name = factory.Sequence(lambda n: f"rack-{n}")
    node_class = NodeClass.COMMUNITY
    public_key = factory.Sequence(lambda n: f"key-{n}")
    state_changed_at = OPENED
    enrolled_at = OPENED


def paid_in(
    *, organization: str, net: int, tax: int = 0, debt: int = 0, currency: str = "usd"
) -> list[ledger.Transfer]:
    """Return what a purchase of `net` moves, `debt` of it to pay what the customer owes."""
    return credit_templates.money_in(
        organization=organization, into=Kind.STRIPE_BALANCE, net=net, tax=tax, owed=Owed(debt), currency=currency
    )


def buy(
    organization: Organization, *, amount: int, now: datetime = OPENED, key: str = "1", currency: str = "usd"
) -> LedgerTx:
    """Book a paid top-up."""
    return ledger.post(
        kind="topup",
        key=f"topup:{organization.public_id}:{key}",
        source_type="topup",
        source_id=key,
        transfers=paid_in(organization=organization.public_id, net=amount, currency=currency),
        actor=SYSTEM_ACTOR,
        now=now,
    )


@dataclass
class Market:
    """What it takes to serve one request for money; `serve` delivers one and queues its record."""

    customer: Organization = field(default_factory=OrganizationFactory)
    node: Node = field(default_factory=ServingNodeFactory)
    model: CatalogModel = field(default_factory=PricedModelFactory)
    paid_nano: int = 10 * NANO_PER_UNIT
    promo_nano: int = 0
    lease_nano: int = NANO_PER_UNIT
    key: ApiKey = field(init=False)
    price: PriceVersion = field(init=False)
    spool: Spool = field(init=False)
    leases: list[CreditLease] = field(init=False)
    sequence: int = 0

    def __post_init__(self) -> None:
        self.key = ApiKeyFactory(organization=self.customer)
        self.price = PriceVersion.objects.filter(model=self.model).first() or prices.set_price(
            model=self.model, terms=TERMS, actor=SYSTEM_ACTOR, now=OPENED
        )
        self.spool = metering.spool(now=OPENED)
        if self.paid_nano:
            buy(self.customer, amount=self.paid_nano)
        if self.promo_nano:
            grants.grant_promo(
                organization=self.customer, amount_nano=self.promo_nano, key="welcome", actor=SYSTEM_ACTOR, now=OPENED
            )
        self.leases = self.lease(self.lease_nano)

    @property
    def provider(self) -> Provider:
        return self.node.provider

    def lease(self, nano: int) -> list[CreditLease]:
        """Grant leases worth `nano`, promotional credit first."""
        if not nano:
            return []
        granted = leases.grant(
            organization_id=self.customer.pk,
            spool_id=self.spool.pk,
            ask=Ask(wanted_nano=nano, minimum_nano=1, idle_nano={}),
            now=OPENED,
        )
        return [CreditLease.objects.get(pk=lease.lease_id) for lease in granted.leases]

    def serve(self, *, prompt: int = 1000, cached: int = 0, completion: int = 500, **overrides) -> UsageRecord:
        """Deliver one request and queue its record; rated by the market's price unless overridden."""
        self.sequence += 1
        charge = overrides.pop("charge_nano", None)
        if charge is None:
            charge = charge_nano(price=self.price, prompt=prompt, cached=cached, completion=completion)
        share_bps = overrides.pop("share_bps", 8000)
        provider_nano, platform_nano = split_share(charge, share_bps)
        closed_at = overrides.pop("closed_at", DELIVERED)
        given = {
            "opened_at": closed_at - timedelta(seconds=2),
            "closed_at": closed_at,
            "spool_id": self.spool.public_id,
            "spool_seq": self.sequence,
            "organization_id": self.customer.pk,
            "api_key_id": self.key.pk,
            "provider_id": self.provider.pk,
            "node_id": self.node.pk,
            "model_id": self.model.pk,
            "price_version_id": self.price.pk,
            "share_bps": share_bps,
            "lease_ids": [self.leases[0].pk if self.leases else 0],
            "prompt_tokens": prompt,
            "cached_tokens": cached,
            "completion_tokens": completion,
            "hold_nano": max(charge, 1),
            "charge_nano": charge,
            "provider_nano": provider_nano,
            "platform_nano": platform_nano,
        }
        return metering.usage_record(**(given | overrides))


def house_market(**changes) -> Market:
    """A market whose node is the operator's own."""
    provider = EarningProviderFactory(kind=ProviderKind.HOUSE)
    return Market(node=ServingNodeFactory(provider=provider, node_class=NodeClass.HOUSE), **changes)


def budget_of(owner: ApiKey | Project | Organization, *, zone: str = "UTC") -> BudgetTerms:
    """Return the owner's budget as the gateway's snapshot would hold it."""
    return BudgetTerms(owner.public_id, owner.budget_period, owner.budget_cap_nano, zone)


def price_to_come(model: CatalogModel | None = None, *, now: datetime = OPENED) -> PriceVersion:
    """A model with a price from `now` on and another one a century later."""
    sold = model or PricedModelFactory()
    prices.set_price(model=sold, terms=TERMS, actor=SYSTEM_ACTOR, now=now)
    later = now + timedelta(days=36_500)
    return prices.set_price(model=sold, terms=TERMS, actor=SYSTEM_ACTOR, now=now, effective_from=later)


def agreed_price(
    organization: Organization, model: CatalogModel | None = None, *, terms: Terms = TERMS, now: datetime = OPENED
) -> PriceVersion:
    """What an organization pays for a model in place of its public price."""
    agreed = prices.Agreed(organization)
    return prices.set_price(
        model=model or PricedModelFactory(), terms=terms, actor=SYSTEM_ACTOR, now=now, agreed=agreed
    )
