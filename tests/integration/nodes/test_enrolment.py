"""A single-use token is exchanged for an identity bound to the agent's key."""

from datetime import timedelta

import pytest

from portal.accounts.models import OrganizationState
from portal.accounts.services.organizations import OrganizationSuspended
from portal.audit.models import AuditEvent
from portal.core.errors import InvalidValue, NotFound
from portal.nodes.models import EnrolmentToken, Node, NodeEvent
from portal.nodes.selectors.house_costs import cost_at
from portal.nodes.services import enrolment
from portal.nodes.services.protocol import ProtocolUnsupported
from tests.factories.nodes import AgentKey
from tests.factories.providers import ProviderFactory
from tests.integration.nodes.agent import Agent


def test_a_machine_joins_once(token, provider, now):
    agent = Agent(key=AgentKey.of(1))

    joined = agent.enrol(token, now, name="  rack4-7 ")

    assert joined.is_new
    assert (joined.node.provider, joined.node.name, joined.node.state) == (provider, "rack4-7", "enrolled")
    assert (joined.node.node_class, joined.node.origin, joined.node.country) == ("community", "provider", "DE")
    row = EnrolmentToken.objects.get()
    assert (row.node, row.used_at) == (joined.node, now)
    assert [event.code for event in NodeEvent.objects.all()] == ["enrolled"]
    assert AuditEvent.objects.get(event="node.enrolled").subject == joined.node.public_id


def test_only_a_hash_of_the_token_is_stored(token):
    row = EnrolmentToken.objects.get()

    assert token.startswith("ph-enrol-")
    assert token not in [str(value) for value in vars(row).values()]
    assert row.token_hash == enrolment.digest(token)


def test_a_lost_reply_is_given_again_with_the_same_key(token, now):
    first = Agent(key=AgentKey.of(1)).enrol(token, now)

    again = Agent(key=AgentKey.of(1)).enrol(token, now + timedelta(days=2))

    assert (again.node, again.is_new) == (first.node, False)
    assert Node.objects.count() == 1


def test_a_replay_with_another_key_is_refused_and_its_owner_is_told(token, now):
    victim = Agent(key=AgentKey.of(1)).enrol(token, now).node
    thief = Agent(key=AgentKey.of(2), address="198.51.100.66")

    with pytest.raises(enrolment.EnrolmentTokenUsed, match="rack 4 was used by the node rack"):
        thief.enrol(token, now)

    assert Node.objects.get() == victim
    event = NodeEvent.objects.get(code="enrolment_token_reused")
    assert (event.node, event.detail) == (victim, {"address": "198.51.100.66"})


def test_a_stolen_token_used_first_shows_up_when_its_owner_joins(token, now):
    stolen = Agent(key=AgentKey.of(66), address="198.51.100.66").enrol(token, now).node

    with pytest.raises(enrolment.EnrolmentTokenUsed):
        Agent(key=AgentKey.of(1)).enrol(token, now)

    assert NodeEvent.objects.filter(node=stolen, code="enrolment_token_reused").exists()


def test_an_unknown_token_is_refused(db, now):
    with pytest.raises(enrolment.EnrolmentTokenInvalid):
        Agent(key=AgentKey.of(1)).enrol("ph-enrol-" + "0" * 32, now)


def test_a_revoked_token_is_refused_even_to_the_machine_that_used_it(token, provider, actor, now):
    agent = Agent(key=AgentKey.of(1))
    agent.enrol(token, now)
    row = EnrolmentToken.objects.get()

    enrolment.revoke_token(provider=provider, public_id=row.public_id, actor=actor, now=now)

    with pytest.raises(enrolment.EnrolmentTokenInvalid):
        agent.enrol(token, now)
    assert Node.objects.count() == 1


def test_a_stranger_cannot_revoke_a_token(token, actor, now):
    row = EnrolmentToken.objects.get()

    with pytest.raises(NotFound):
        enrolment.revoke_token(provider=ProviderFactory(), public_id=row.public_id, actor=actor, now=now)

    row.refresh_from_db()
    assert row.revoked_at is None


def test_a_token_ends(token, now):
    with pytest.raises(enrolment.EnrolmentTokenExpired):
        Agent(key=AgentKey.of(1)).enrol(token, now + timedelta(hours=1))

    assert Node.objects.count() == 0


def test_a_key_joins_once(provider, actor, agent, now):
    other = enrolment.create_token(provider=provider, label="b", created_by=None, actor=actor, now=now)

    with pytest.raises(enrolment.NodeKeyTaken):
        Agent(key=agent.key).enrol(other.text, now)

    other.row.refresh_from_db()
    assert (Node.objects.count(), other.row.used_at, other.row.node) == (1, None, None)


@pytest.mark.parametrize("key", ["", "abc", "é" * 44, "A" * 44])
def test_a_bad_key_uses_no_token_up(token, now, key):
    facts = enrolment.Enrolment(public_key=key, name="x", agent_version="0", protocol=1)

    with pytest.raises(InvalidValue):
        enrolment.enrol_node(token=token, enrolment=facts, address=None, now=now)

    assert EnrolmentToken.objects.get().used_at is None


def test_another_protocol_is_refused(token, now):
    with pytest.raises(ProtocolUnsupported):
        Agent(key=AgentKey.of(1)).enrol(token, now, protocol=2)


def test_a_token_lives_a_week_at_most(provider, actor, now):
    for ttl in (timedelta(0), timedelta(days=8)):
        with pytest.raises(InvalidValue):
            enrolment.create_token(provider=provider, label="", created_by=None, actor=actor, now=now, ttl=ttl)


def test_a_suspended_organization_gets_no_token(provider, actor, now):
    provider.organization.state = OrganizationState.SUSPENDED
    provider.organization.save()

    with pytest.raises(OrganizationSuspended):
        enrolment.create_token(provider=provider, label="", created_by=None, actor=actor, now=now)

    assert not EnrolmentToken.objects.exists()


def test_a_house_provider_joins_house_nodes(db, actor, now):
    house = ProviderFactory(house=True, is_identified=False)
    made = enrolment.create_token(provider=house, label="", created_by=None, actor=actor, now=now)

    node = Agent(key=AgentKey.of(1)).enrol(made.text, now).node

    assert (node.node_class, node.origin, cost_at(node=node, at=now)) == ("house", "owned", 0)
