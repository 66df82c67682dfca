"""For each route with arguments: how to make an object of the given team and name it in the URL.

Add one line when you add a route with arguments; tests/integration/web/test_route_matrix.py fails without it.
"""

from collections.abc import Callable
from datetime import UTC, datetime
from uuid import UUID

from portal.accounts.models import Organization
from portal.billing.models import EarningMaturity, Postpaid
from portal.billing.rules import periods
from portal.billing.services import closing, posting
from portal.nodes.models import AgentRelease, Node
from portal.payouts.models import BankAccount, Payout
from portal.providers.models import Provider
from tests.factories.accounts import ApiKeyFactory, InvitationFactory, OrganizationFactory, ProjectFactory
from tests.factories.billing import (
    DELIVERED,
    Market,
    PricedModelFactory,
    ServingNodeFactory,
    agreed_price,
    buy,
    price_to_come,
)
from tests.factories.catalog import CatalogModelFactory
from tests.factories.checks import CheckResultFactory
from tests.factories.credit import BankTransferFactory, CustomerCardFactory, PostpaidBillFactory, PostpaidFactory
from tests.factories.metering import usage_record
from tests.factories.nodes import DeploymentFactory, EnrolmentTokenFactory, NodeFactory, NodeGuestFactory
from tests.factories.payouts import AdjustmentFactory, BankAccountFactory, PayoutFactory, PayoutRunFactory, TopUpFactory
from tests.factories.providers import ProviderFactory
from tests.factories.releases import AgentReleaseFactory
from tests.factories.returns import DisputeFactory, FraudWarningFactory, RefundFactory, RelatedPairFactory
from tests.factories.tax import StripeMovementFactory, TaxProfileFactory, credit_note
from tests.world import Team, World

Maker = Callable[[World, Team], dict[str, object]]


def _provider(team: Team) -> Provider:
    found = Provider.objects.filter(organization=team.organization).first()
    return found or ProviderFactory(organization=team.organization)


def _node(team: Team, **fields: object) -> Node:
    return NodeFactory(provider=_provider(team), **fields)


def _guest(organization: Organization, node: Node | None = None) -> tuple[Node, Organization]:
    """A private node of somebody else's, with the organization as its guest."""
    private = node or NodeFactory(is_private=True)
    NodeGuestFactory(node=private, organization=organization)
    return private, organization


def _guest_names(node: Node, organization: Organization) -> dict[str, object]:
    return {"node_id": node.public_id, "organization": organization.public_id}


def _payout(world: World) -> Payout:
    """A provider has one open payout at most."""
    return Payout.objects.filter(provider=world.provider).first() or PayoutFactory(provider=world.provider)


def _credit_account(team: Team) -> str:
    buy(team.organization, amount=1, key="matrix")
    return f"customer_credit:{team.organization.public_id}"


def _closed_month() -> str:
    october = periods.month_of(datetime(2026, 10, 1, tzinfo=UTC))
    return str(closing.close_period(period=october, now=october.ends_at + periods.CLOSING_DELAY))


def _bank_account(world: World) -> BankAccount:
    """A provider has one set of bank details at most."""
    return BankAccount.objects.filter(provider=world.provider).first() or BankAccountFactory(provider=world.provider)


def _earning(team: Team) -> UUID:
    """A request that a node of the team has earned by."""
    provider = _provider(team)
    provider.is_identified = True
    provider.save()
    Market(node=ServingNodeFactory(provider=provider)).serve()
    posting.post_usage(now=DELIVERED)
    return EarningMaturity.objects.filter(provider=provider.public_id).latest("pk").tx_id


def _release() -> AgentRelease:
    return AgentReleaseFactory()


def _invited(organization: Organization) -> Organization:
    """An organization pays afterwards by one set of terms at most."""
    if not Postpaid.objects.filter(organization=organization).exists():
        PostpaidFactory(organization=organization)
    return organization


OBJECTS: dict[str, Maker] = {
    "customer:refund-cancel": lambda world, team: {
        "refund": RefundFactory(topup__organization=team.organization).public_id
    },
    "operators:customer-risk": lambda world, team: {"organization": team.organization.public_id},
    "operators:customer-risk-act": lambda world, team: {"organization": team.organization.public_id},
    "operators:dispute": lambda world, team: {"dispute": DisputeFactory(topup__organization=team.organization)},
    "operators:dispute-read": lambda world, team: {"dispute": DisputeFactory(topup__organization=team.organization)},
    "operators:dispute-submit": lambda world, team: {"dispute": DisputeFactory(topup__organization=team.organization)},
    "operators:fraud-warning-decide": lambda world, team: {
        "warning": FraudWarningFactory(topup__organization=team.organization)
    },
    "operators:refund": lambda world, team: {"refund": RefundFactory(topup__organization=team.organization).public_id},
    "operators:refund-act": lambda world, team: {
        "refund": RefundFactory(topup__organization=team.organization).public_id
    },
    "operators:related-rule": lambda world, team: {
        "pair_id": RelatedPairFactory(low=team.organization, high=OrganizationFactory()).pk
    },
    "account_confirm_email": lambda world, team: {"key": "unknown"},
    "account_reset_password_from_key": lambda world, team: {"uidb36": "1", "key": "unknown"},
    "customer:key": lambda world, team: {"key": ApiKeyFactory(organization=team.organization).public_id},
    "customer:key-change": lambda world, team: {"key": ApiKeyFactory(organization=team.organization).public_id},
    "customer:key-end-grace": lambda world, team: {"key": ApiKeyFactory(organization=team.organization).public_id},
    "customer:key-rotate": lambda world, team: {"key": ApiKeyFactory(organization=team.organization).public_id},
    "customer:project": lambda world, team: {"project": ProjectFactory(organization=team.organization).public_id},
    "customer:project-archive": lambda world, team: {
        "project": ProjectFactory(organization=team.organization).public_id
    },
    "customer:key-revoke": lambda world, team: {"key": ApiKeyFactory(organization=team.organization).public_id},
    "customer:request": lambda world, team: {
        "request_id": usage_record(organization_id=team.organization.pk).request_id
    },
    "customer:bill": lambda world, team: {"bill": PostpaidBillFactory(organization=team.organization).public_id},
    "customer:card-remove": lambda world, team: {"card": CustomerCardFactory(organization=team.organization).public_id},
    "operators:bank-transfer-act": lambda world, team: {
        "transfer": BankTransferFactory(organization=team.organization).public_id
    },
    "operators:bill-write-off": lambda world, team: {
        "bill": PostpaidBillFactory(organization=team.organization).public_id
    },
    "operators:customer-bank": lambda world, team: {"organization": team.organization.public_id},
    "operators:customer-credit": lambda world, team: {"organization": team.organization.public_id},
    "operators:customer-gift": lambda world, team: {"organization": team.organization.public_id},
    "operators:customer-postpaid": lambda world, team: {"organization": team.organization.public_id},
    "operators:customer-postpaid-end": lambda world, team: {"organization": _invited(team.organization).public_id},
    "customer:topup": lambda world, team: {"topup": TopUpFactory(organization=team.organization).public_id},
    "mfa_edit_webauthn": lambda world, team: {"pk": 1},
    "mfa_remove_webauthn": lambda world, team: {"pk": 1},
    "agent-release-file": lambda world, team: {"version": _release().version, "name": "manifest.json"},
    "operators:release": lambda world, team: {"version": _release().version},
    "operators:release-stop": lambda world, team: {"version": _release().version, "how": "halt"},
    "operators:model-prices": lambda world, team: {"model_id": PricedModelFactory().pk},
    "operators:price-cancel": lambda world, team: {"version_id": price_to_come().pk},
    "operators:agreement-end": lambda world, team: {"version_id": agreed_price(team.organization).pk},
    "public:model": lambda world, team: {"model_id": price_to_come().model.public_id},
    "operators:adjustment": lambda world, team: {"adjustment": AdjustmentFactory(provider=_provider(team)).public_id},
    "operators:adjustment-decide": lambda world, team: {
        "adjustment": AdjustmentFactory(provider=_provider(team)).public_id
    },
    "operators:adjustment-new": lambda world, team: {"provider_id": _provider(team).public_id},
    "operators:standing": lambda world, team: {"provider_id": _provider(team).public_id},
    "operators:payout-run": lambda world, team: {"run": PayoutRunFactory().public_id},
    "operators:payout-run-approve": lambda world, team: {"run": PayoutRunFactory().public_id},
    "operators:payout-run-check": lambda world, team: {"run": PayoutRunFactory().public_id},
    "operators:payout-reverse": lambda world, team: {"payout": _payout(world).public_id},
    "provider:payout": lambda world, team: {
        "payout": PayoutFactory(provider=_provider(team), state="canceled").public_id
    },
    "provider:earning": lambda world, team: {"tx_id": _earning(team)},
    "operators:bank-account": lambda world, team: {"bank_account": _bank_account(world).public_id},
    "operators:payout-transfer-act": lambda world, team: {"payout": _payout(world).public_id},
    "operators:payout-account": lambda world, team: {"provider": world.provider.public_id},
    "operators:payout": lambda world, team: {"payout": _payout(world).public_id},
    "operators:payout-act": lambda world, team: {"payout": _payout(world).public_id},
    "operators:account": lambda world, team: {"code": _credit_account(team)},
    "operators:account-csv": lambda world, team: {"code": _credit_account(team)},
    "operators:period-close": lambda world, team: {"month": "2026-10"},
    "operators:period-journal": lambda world, team: {"month": "2026-10"},
    "operators:period-balances": lambda world, team: {"month": _closed_month()},
    "operators:stripe-book": lambda world, team: {"line": StripeMovementFactory().stripe_id},
    "operators:tax-confirm": lambda world, team: {"provider_id": TaxProfileFactory().provider.public_id},
    "operators:tax-year": lambda world, team: {"year": 2026},
    "operators:tax-year-csv": lambda world, team: {"year": 2026},
    "operators:credit-note": lambda world, team: {"note": credit_note(_provider(team)).public_id},
    "provider:credit-note": lambda world, team: {"note": credit_note(_provider(team)).public_id},
    "operators:transaction": lambda world, team: {"tx_id": buy(team.organization, amount=1, key="matrix").pk},
    "operators:customer-ceilings": lambda world, team: {"organization": team.organization.public_id},
    "operators:customer": lambda world, team: {"organization": team.organization.public_id},
    "organization:accept-invitation": lambda world, team: {"token": "unknown"},
    "organization:change-role": lambda world, team: {"user": team.reader.public_id},
    "organization:invitation": lambda world, team: {"token": "unknown"},
    "organization:remove-member": lambda world, team: {"user": team.reader.public_id},
    "organization:revoke-invitation": lambda world, team: {
        "invitation": InvitationFactory(organization=team.organization, invited_by=team.owner).pk
    },
    "operators:model-files": lambda world, team: {"model_id": CatalogModelFactory(plain=True).pk},
    "operators:model-config": lambda world, team: {"model_id": CatalogModelFactory(plain=True).pk},
    "operators:model": lambda world, team: {"model_id": CatalogModelFactory(plain=True).pk},
    "operators:model-move": lambda world, team: {
        "model_id": CatalogModelFactory(plain=True, is_draft=True).pk,
        "move": "activate",
    },
    "operators:placement-target": lambda world, team: {"model_id": CatalogModelFactory(plain=True).pk},
    "provider:payout-json": lambda world, team: {
        "payout_id": (
            Payout.objects.filter(provider=_provider(team)).first() or PayoutFactory(provider=_provider(team))
        ).public_id
    },
    "provider:node-placement": lambda world, team: {"node_id": _node(team).public_id},
    "operators:check": lambda world, team: {"check_id": "gpu.matmul.bf16"},
    "operators:check-result": lambda world, team: {"result_id": CheckResultFactory(round__node=_node(team)).pk},
    "operators:node-checks": lambda world, team: {"node_id": _node(team).public_id},
    "provider:node-checks": lambda world, team: {"node_id": _node(team).public_id},
    "operators:node": lambda world, team: {"node_id": _node(team).public_id},
    "customer:private-node": lambda world, team: {"node_id": _guest(team.organization)[0].public_id},
    "operators:guest-remove": lambda world, team: _guest_names(*_guest(team.organization)),
    "operators:node-private": lambda world, team: {"node_id": _node(team).public_id},
    "provider:guest-remove": lambda world, team: _guest_names(*_guest(world.other, _node(team, is_private=True))),
    "provider:node-private": lambda world, team: {"node_id": _node(team).public_id},
    "provider:private-price": lambda world, team: {
        "model_id": DeploymentFactory(node=_node(team), model__plain=True).model.public_id
    },
    "operators:node-lift": lambda world, team: {"node_id": _node(team, state="suspended").public_id},
    "operators:node-suspend": lambda world, team: {"node_id": _node(team).public_id},
    "operators:provider": lambda world, team: {"provider_id": _provider(team).public_id},
    "operators:provider-decide": lambda world, team: {"provider_id": _provider(team).public_id, "decision": "suspend"},
    "provider:deployment-stop": lambda world, team: {
        "deployment": DeploymentFactory(node=_node(team), model__plain=True).public_id
    },
    "provider:enrol-revoke": lambda world, team: {"token": EnrolmentTokenFactory(provider=_provider(team)).public_id},
    "provider:enrol-wait": lambda world, team: {"token": EnrolmentTokenFactory(provider=_provider(team)).public_id},
    "provider:node": lambda world, team: {"node_id": _node(team).public_id},
    "provider:node-deploy": lambda world, team: {"node_id": _node(team).public_id},
    "provider:node-drain": lambda world, team: {"node_id": _node(team).public_id},
    "provider:node-resume": lambda world, team: {"node_id": _node(team, is_drain_wanted=True).public_id},
    "provider:node-retire": lambda world, team: {"node_id": _node(team).public_id},
    "provider:request": lambda world, team: {"request_id": usage_record(provider_id=_provider(team).pk).request_id},
}
