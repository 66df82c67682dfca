"""The provider's profile and agreement, and the operator's decisions about providers and nodes."""

import re

import pytest

from portal.nodes.models import HouseCost
from portal.providers.models import Agreement, AgreementAcceptance, Provider, ProviderState
from tests.factories.accounts import MembershipFactory
from tests.factories.nodes import NodeFactory
from tests.factories.providers import AgreementFactory, ProviderFactory
from tests.world import World

PROFILE = {"legal_name": "Acme GmbH", "contact_email": "ops@acme.example", "country": "FR"}


def text(response) -> str:
    assert response.status_code == 200, response.status_code
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", response.text))


@pytest.fixture
def console(world: World):
    return world.client(world.operator)


def test_from_nothing_to_submitted(db):
    from django.test import Client

    member = MembershipFactory()
    browser = Client()
    browser.force_login(member.user)

    assert "Saving opens the provider" in text(browser.get("/provider/profile/"))
    assert browser.post("/provider/profile/", PROFILE).status_code == 302
    provider = Provider.objects.get()
    assert (provider.organization, provider.state, provider.country) == (member.organization, "draft", "FR")

    assert browser.get("/provider/profile/submit/").status_code == 200
    assert browser.post("/provider/profile/submit/").status_code == 302
    provider.refresh_from_db()
    assert provider.state == "submitted"


@pytest.mark.parametrize("change", [{"legal_name": ""}, {"contact_email": "x"}, {"country": "XX"}])
def test_a_wrong_profile_is_shown_again(world, change):
    response = world.client(world.supplier.owner).post("/provider/profile/", {**PROFILE, **change})

    assert response.status_code == 200
    assert "errorlist" in response.text
    world.provider.refresh_from_db()
    assert world.provider.legal_name != "Acme GmbH"


def test_the_agreement_is_accepted_by_its_version(world):
    browser = world.client(world.supplier.owner)
    agreement = AgreementFactory(text="First line.\n\n<script>alert(1)</script>")
    page = browser.get("/provider/agreement/")
    assert "<script>alert" not in page.text
    assert "First line." in page.text

    assert browser.post("/provider/agreement/", {"version": "other"}).status_code == 409
    assert not AgreementAcceptance.objects.exists()

    assert browser.post("/provider/agreement/", {"version": agreement.version}).status_code == 302
    row = AgreementAcceptance.objects.get()
    assert (row.provider, row.accepted_by, row.address) == (world.provider, world.supplier.owner, "127.0.0.1")


def test_a_member_cannot_accept(world):
    agreement = AgreementFactory()

    response = world.client(world.supplier.member).post("/provider/agreement/", {"version": agreement.version})

    assert response.status_code == 403
    assert not AgreementAcceptance.objects.exists()


def test_a_rejected_provider_reads_the_reason(world):
    world.provider.state, world.provider.state_reason = ProviderState.REJECTED, "Which address?"
    world.provider.save()

    page = text(world.client(world.supplier.owner).get("/provider/profile/"))

    assert "Which address?" in page
    assert "Submit for approval" in page


def test_the_operator_approves_rejects_suspends_and_reinstates(console, world):
    row = ProviderFactory(state=ProviderState.SUBMITTED)
    node = NodeFactory(provider=row)
    address = f"/operator/providers/{row.public_id}/"
    assert row.legal_name in text(console.get("/operator/providers/?state=submitted"))

    console.post(address + "reject/", {"reason": "No."})
    row.refresh_from_db()
    assert (row.state, row.state_reason) == ("rejected", "No.")
    console.post(address + "approve/")
    console.post(address + "suspend/", {"reason": "Fraud"})
    row.refresh_from_db()
    node.refresh_from_db()
    assert (row.state, node.state, node.state_code) == ("suspended", "suspended", "provider_suspended")
    console.post(address + "reinstate/")
    row.refresh_from_db()
    node.refresh_from_db()
    assert (row.state, node.state) == ("approved", "offline")


def test_a_decision_without_a_reason_is_asked_again(console, world):
    response = console.post(f"/operator/providers/{world.provider.public_id}/suspend/", {"reason": ""})

    assert "errorlist" in response.text
    world.provider.refresh_from_db()
    assert world.provider.state == "approved"


@pytest.mark.parametrize("decision", ["reject", "reinstate", "delete"])
def test_a_decision_that_the_state_does_not_allow_changes_nothing(console, world, decision):
    response = console.post(f"/operator/providers/{world.provider.public_id}/{decision}/", {"reason": "x"})

    assert response.status_code == 302
    world.provider.refresh_from_db()
    assert world.provider.state == "approved"


def test_kind_and_rights_are_set(console, world):
    console.post(f"/operator/providers/{world.provider.public_id}/", {"kind": "house", "may_use_external_engine": "on"})

    world.provider.refresh_from_db()
    assert (world.provider.kind, world.provider.may_use_external_engine) == ("house", True)


def test_an_agreement_is_published(console, world):
    form = {"version": "2027-1", "text": "We serve.", "effective_from": "2027-01-01T00:00"}

    assert console.post("/operator/providers/agreement/", form).status_code == 302
    assert Agreement.objects.get().effective_from.isoformat() == "2027-01-01T00:00:00+00:00"
    assert "already published" in text(console.post("/operator/providers/agreement/", form))


def test_the_fleet_and_a_node_of_it(console, world):
    node = NodeFactory(provider=world.provider, name="rack4-7")

    assert "rack4-7" in text(console.get("/operator/nodes/"))
    assert "No node is in this state" in text(console.get("/operator/nodes/?state=retired"))
    console.post(f"/operator/nodes/{node.public_id}/suspend/", {"reason": "Wrong answers"})
    node.refresh_from_db()
    assert (node.state, node.state_reason) == ("suspended", "Wrong answers")
    assert "Lift the suspension" in text(console.get(f"/operator/nodes/{node.public_id}/"))
    console.post(f"/operator/nodes/{node.public_id}/lift/")
    node.refresh_from_db()
    assert node.state == "offline"


def test_a_house_nodes_cost_is_set_by_the_hour(console, db):
    node = NodeFactory(provider__kind="house")
    address = f"/operator/nodes/{node.public_id}/"

    assert "errorlist" in console.post(address, {"origin": "rented", "cost_per_hour": "much"}).text
    assert console.post(address, {"origin": "rented", "cost_per_hour": "1.20"}).status_code == 302

    assert HouseCost.objects.get().nano_per_hour == 1_200_000_000
    assert "1.20" in text(console.get(address))


def test_another_providers_node_has_no_house_terms(console, world):
    node = NodeFactory(provider=world.provider)

    response = console.post(f"/operator/nodes/{node.public_id}/", {"origin": "rented", "cost_per_hour": "1.20"})

    assert response.status_code == 200
    node.refresh_from_db()
    assert node.origin == "provider"
    assert not HouseCost.objects.exists()
