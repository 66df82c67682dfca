"""Private nodes: named guests, their own acceptance, and prices that never become dearer behind a guest's back."""

from datetime import UTC, datetime, timedelta

import pytest
import time_machine

from portal.audit.models import AuditEvent
from portal.audit.services import SYSTEM_ACTOR
from portal.billing.models import PriceVersion
from portal.billing.rules.rating import Terms
from portal.billing.services import prices
from portal.gateway.candidates import private_price
from portal.gateway.snapshot_loader import SnapshotLoader
from portal.nodes.models import NodeGuest
from portal.nodes.services import guests
from tests.factories.accounts import OrganizationFactory
from tests.factories.billing import TERMS, PricedModelFactory
from tests.factories.nodes import DeploymentFactory, NodeFactory, NodeGuestFactory

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 2, 15, 0, tzinfo=UTC)
CHEAP = Terms(100_000_000, 50_000_000, 400_000_000)
DEAR = Terms(900_000_000, 450_000_000, 1_900_000_000)


@pytest.fixture(autouse=True)
def at_noon():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture
def node():
    return NodeFactory(is_private=True)


@pytest.fixture
def guest():
    return OrganizationFactory(name="Guest GmbH")


@pytest.fixture
def model(node):
    return _sold(node)


def _sold(node):
    """A model with a public price that runs on the node."""
    model = PricedModelFactory()
    prices.set_price(model=model, terms=TERMS, actor=SYSTEM_ACTOR, now=NOW - timedelta(days=1))
    DeploymentFactory(node=node, model=model, observed="ready")
    return model


def _own_price(node, model, terms, *, now=NOW, effective_from=None):
    return prices.set_price(
        model=model,
        terms=terms,
        actor=SYSTEM_ACTOR,
        now=now,
        effective_from=effective_from,
        provider=node.provider,
    )


def _pays(node, guest, model, *, at):
    """Return what the guest pays on the node by a fresh snapshot: a price version's id, None where it waits."""
    snapshot = SnapshotLoader().load(now=at)
    ((row,),) = [snapshot.private_nodes[guest.pk, model.pk]]
    price = private_price(row, snapshot.models[model.public_id].prices[0], at=at.timestamp())
    return None if price is None else price.id


def test_a_private_node_leaves_the_public_pool_and_serves_only_who_accepted(node, guest, model):
    NodeGuestFactory(node=node, organization=guest)
    waiting = SnapshotLoader().load(now=NOW)

    guests.accept(node_id=node.public_id, organization=guest, actor=SYSTEM_ACTOR, now=NOW)

    accepted = SnapshotLoader().load(now=NOW)
    assert waiting.nodes_by_model == accepted.nodes_by_model == {}
    assert waiting.private_nodes == {}
    assert [row.node.id for row in accepted.private_nodes[guest.pk, model.pk]] == [node.pk]
    assert accepted.nodes[node.pk].is_private


def test_without_a_price_of_its_own_the_public_one_holds(node, guest, model):
    NodeGuestFactory(node=node, organization=guest, accepted_at=NOW)

    assert _pays(node, guest, model, at=NOW) == PriceVersion.objects.get(model=model, provider=None).pk


def test_what_was_set_before_the_acceptance_is_accepted_announced_prices_too(node, guest, model):
    june = NOW + timedelta(days=30)
    now, later = _own_price(node, model, CHEAP), _own_price(node, model, DEAR, effective_from=june)
    NodeGuestFactory(node=node, organization=guest, accepted_at=NOW)

    assert _pays(node, guest, model, at=NOW) == now.pk
    assert _pays(node, guest, model, at=june) == later.pk


def test_a_dearer_price_waits_for_the_guest_and_a_cheaper_one_does_not(node, guest, model):
    first = _own_price(node, model, Terms(200_000_000, 100_000_000, 800_000_000))
    NodeGuestFactory(node=node, organization=guest, accepted_at=NOW)
    hour = timedelta(hours=1)

    cheaper = _own_price(node, model, CHEAP, now=NOW + hour)
    dearer = _own_price(node, model, DEAR, now=NOW + 2 * hour)

    assert _pays(node, guest, model, at=NOW) == first.pk
    assert _pays(node, guest, model, at=NOW + hour) == cheaper.pk
    assert _pays(node, guest, model, at=NOW + 2 * hour) is None
    guests.accept(node_id=node.public_id, organization=guest, actor=SYSTEM_ACTOR, now=NOW + 3 * hour)
    assert _pays(node, guest, model, at=NOW + 3 * hour) == dearer.pk


def test_a_price_dearer_in_one_part_alone_waits_too(node, guest, model):
    _own_price(node, model, CHEAP)
    NodeGuestFactory(node=node, organization=guest, accepted_at=NOW)

    _own_price(node, model, Terms(1, 1, 1, request_nano=1), now=NOW + timedelta(hours=1))

    assert _pays(node, guest, model, at=NOW + timedelta(hours=1)) is None


def test_the_snapshot_hears_of_guests_and_acceptance(node, guest, model):
    loader = SnapshotLoader()
    before = loader.load(now=NOW)
    row = NodeGuestFactory(node=node, organization=guest)
    row.accepted_at = NOW
    row.save()

    after = loader.load(now=NOW)
    row.delete()

    assert before.private_nodes == {}
    assert list(after.private_nodes) == [(guest.pk, model.pk)]
    assert loader.load(now=NOW).private_nodes == {}


def test_naming_is_refused_by_name(node, guest):
    name = {"node_id": node.public_id, "actor": SYSTEM_ACTOR, "now": NOW}
    public = NodeFactory(provider=node.provider)

    with pytest.raises(guests.OwnNodes):
        guests.name_guest(organization_id=node.provider.organization.public_id, **name)
    with pytest.raises(guests.NotFound):
        guests.name_guest(organization_id="org_unknown", **name)
    with pytest.raises(guests.NodeNotPrivate):
        guests.name_guest(organization_id=guest.public_id, **name | {"node_id": public.public_id})
    assert not NodeGuest.objects.exists()

    guests.name_guest(organization_id=guest.public_id, **name)
    with pytest.raises(guests.GuestExists):
        guests.name_guest(organization_id=guest.public_id, **name)
    assert NodeGuest.objects.get().accepted_at is None
    assert AuditEvent.objects.filter(event="node.guest_named").count() == 1


def test_public_and_private_versions_are_counted_apart(node, model):
    own = _own_price(node, model, CHEAP)

    assert own.version == 1
    assert PriceVersion.objects.get(model=model, provider=None).version == 1


def test_the_provider_makes_a_node_private_names_a_guest_and_this_accepts(world, django_assert_max_num_queries):
    world.provider.is_identified = True  # it asks for money, which nobody unidentified earns
    world.provider.save()
    node = NodeFactory(provider=world.provider)
    model = _sold(node)
    guest = world.customer.organization
    owner = world.client(world.supplier.admin)
    private = f"/provider/nodes/{node.public_id}/private/"

    owner.post(private, {"visibility": "private"})
    unknown = owner.post(private, {"organization": "org_nobody"}).content.decode()
    owner.post(private, {"organization": guest.public_id})
    preview = owner.post(
        f"/provider/prices/{model.public_id}/",
        {"prompt": "0.4", "cached": "0.1", "completion": "1.6", "request_fee": "0"},
    ).content.decode()
    owner.post(
        f"/provider/prices/{model.public_id}/",
        {"prompt": "0.4", "cached": "0.1", "completion": "1.6", "request_fee": "0", "confirm": "1"},
    )
    customer = world.client(world.customer.admin)
    with django_assert_max_num_queries(30):
        listed = customer.get("/customer/private-nodes/").content.decode()
    shown = customer.get(f"/customer/private-nodes/{node.public_id}/").content.decode()
    customer.post(f"/customer/private-nodes/{node.public_id}/", {"decision": "accept"})
    accepted = customer.get(f"/customer/private-nodes/{node.public_id}/").content.decode()

    assert "Accept these prices" in shown
    assert "Accept these prices" not in accepted
    assert "It serves your requests" in accepted
    assert "there is no organization with this id" in unknown
    assert "$0.0012" in preview  # 1,000 prompt tokens at 0.4 and 500 completion tokens at 1.6 a million
    version = PriceVersion.objects.get(provider=world.provider)
    assert (version.prompt_nano_per_mtok, version.completion_nano_per_mtok) == (400_000_000, 1_600_000_000)
    assert "Waits for you" in listed
    assert "private, version 1" in shown
    assert NodeGuest.objects.get(organization=guest).accepted_at == NOW
    assert _pays(node, guest, model, at=NOW) == version.pk


def test_the_operator_sees_private_prices(world, node, model):
    _own_price(node, model, DEAR)

    page = world.client(world.operator).get(f"/operator/prices/{model.pk}/").content.decode()

    assert "Private prices" in page
    assert node.provider.legal_name in page
    assert "$0.90" in page


def test_a_guest_leaves_and_a_member_may_not_decide(world, node):
    row = NodeGuestFactory(node=node, organization=world.customer.organization, accepted_at=NOW)
    address = f"/customer/private-nodes/{node.public_id}/"

    assert world.client(world.customer.member).post(address, {"decision": "leave"}).status_code == 403
    assert NodeGuest.objects.filter(pk=row.pk).exists()
    assert world.client(world.stranger).post(address, {"decision": "accept"}).status_code == 404
    world.client(world.customer.admin).post(address, {"decision": "leave"})

    assert not NodeGuest.objects.exists()


def test_the_operator_may_do_the_same(world, node, guest):
    browser = world.client(world.operator)
    address = f"/operator/nodes/{node.public_id}"

    browser.post(f"{address}/private/", {"organization": guest.public_id})
    assert guest.public_id in browser.get(f"{address}/private/").content.decode()
    browser.post(f"{address}/guests/{guest.public_id}/remove/")
    browser.post(f"{address}/private/", {"visibility": "public"})

    node.refresh_from_db()
    assert not node.is_private
    assert not NodeGuest.objects.exists()
