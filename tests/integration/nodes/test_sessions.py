"""Sessions: the key is proven, the newest wins, a copied key is found out."""

from datetime import timedelta

import pytest

from portal.nodes.locks import NodeUnknown
from portal.nodes.models import NodeEvent, NodeSession, SessionChallenge
from portal.nodes.services import lifecycle, sessions, tunnels
from portal.nodes.services.protocol import ProtocolUnsupported
from tests.factories.nodes import AgentKey
from tests.integration.nodes.agent import Agent


def test_a_session_opens_and_the_node_is_checked(agent, now):
    session = agent.open(now)

    assert (session.generation, session.expires_in_s) == (1, 600)
    identity = sessions.authenticate(token=session.token, now=now)
    assert identity == sessions.SessionIdentity(agent.node.pk, agent.node.public_id, 1)
    agent.node.refresh_from_db()
    assert (agent.node.state, agent.node.generation, agent.node.last_address) == ("checking", 1, "192.0.2.7")
    assert not NodeSession.objects.filter(token_hash=session.token).exists()


def test_the_tunnels_address_follows_the_gateways(settings):
    settings.GATEWAY_URL = "https://api.pool.example/base"
    assert sessions.tunnel_url() == "wss://api.pool.example/base/agent/v1/tunnel"
    settings.GATEWAY_URL = "http://127.0.0.1:8001"
    assert sessions.tunnel_url() == "ws://127.0.0.1:8001/agent/v1/tunnel"


def test_a_nonce_is_good_once(agent, now):
    request = agent.request(now)
    sessions.open_session(request=request, bearer="", address=None, now=now)

    with pytest.raises(sessions.NonceInvalid):
        sessions.open_session(request=request, bearer="", address=None, now=now)


def test_a_failed_attempt_uses_the_nonce_up_too(agent, now):
    request = agent.request(now, signature="AAAA")
    with pytest.raises(sessions.SignatureInvalid):
        sessions.open_session(request=request, bearer="", address=None, now=now)

    assert SessionChallenge.objects.get().used_at == now
    agent.node.refresh_from_db()
    assert (agent.node.generation, agent.node.state) == (0, "enrolled")


def test_a_nonce_ends_after_a_minute(agent, now):
    request = agent.request(now)

    with pytest.raises(sessions.NonceInvalid):
        sessions.open_session(request=request, bearer="", address=None, now=now + timedelta(seconds=60))


def test_a_nonce_of_another_node_is_worth_nothing(agent, provider, actor, now):
    from portal.nodes.services import enrolment

    made = enrolment.create_token(provider=provider, label="", created_by=None, actor=actor, now=now)
    other = Agent(key=AgentKey.of(2))
    other.enrol(made.text, now)
    nonce = sessions.challenge(node=other.node.public_id, now=now).nonce

    with pytest.raises(sessions.NonceInvalid):
        sessions.open_session(request=agent.request(now, nonce=nonce), bearer="", address=None, now=now)


def test_a_signature_for_another_portal_is_refused(agent, now):
    with pytest.raises(sessions.PublicUrlMismatch):
        sessions.open_session(
            request=agent.request(now, public_url="https://evil.example"), bearer="", address=None, now=now
        )


def test_a_signature_made_for_another_portal_and_relayed_here_is_refused(agent, now):
    nonce = sessions.challenge(node=agent.node.public_id, now=now).nonce
    relayed = agent.key.sign_session(nonce=nonce, node=agent.node.public_id, public_url="https://evil.example")

    with pytest.raises(sessions.SignatureInvalid):
        sessions.open_session(
            request=agent.request(now, nonce=nonce, signature=relayed), bearer="", address=None, now=now
        )


def test_another_key_cannot_open_this_nodes_session(agent, now):
    thief = Agent(key=AgentKey.of(99), node=agent.node)

    with pytest.raises(sessions.SignatureInvalid):
        thief.open(now)


def test_another_protocol_is_refused(agent, now):
    with pytest.raises(ProtocolUnsupported):
        sessions.open_session(request=agent.request(now, protocol=9), bearer="", address=None, now=now)


def test_an_unknown_node_gets_no_challenge(db, now):
    with pytest.raises(NodeUnknown):
        sessions.challenge(node="node_nobody", now=now)


def test_challenges_do_not_pile_up(agent, now):
    for _ in range(60):
        sessions.challenge(node=agent.node.public_id, now=now)

    assert SessionChallenge.objects.count() == 20
    assert sessions.forget_expired_challenges(now=now + timedelta(seconds=61)) == 20


def test_a_renewal_keeps_the_generation_and_ends_the_old_token(agent, now):
    first = agent.open(now)
    later = now + timedelta(minutes=8)

    renewed = agent.open(later, bearer=first.token)

    assert renewed.generation == first.generation
    assert NodeSession.objects.count() == 1
    with pytest.raises(sessions.SessionExpired):
        sessions.authenticate(token=first.token, now=later)
    assert sessions.authenticate(token=renewed.token, now=later + timedelta(minutes=9)).generation == 1


def test_a_renewal_by_another_instance_begins_a_new_generation(agent, now):
    first = agent.open(now)
    agent.instance = "i-2"

    second = agent.open(now, bearer=first.token)

    assert second.generation == 2


def test_a_session_ends_after_ten_minutes(agent, now):
    session = agent.open(now)

    with pytest.raises(sessions.SessionExpired):
        sessions.authenticate(token=session.token, now=now + timedelta(minutes=10))


def test_the_newest_session_wins(agent, now):
    old = agent.open(now)
    twin = agent.twin("i-2")

    new = twin.open(now)

    with pytest.raises(sessions.SessionSuperseded):
        sessions.authenticate(token=old.token, now=now)
    assert sessions.authenticate(token=new.token, now=now).generation == 2
    assert not tunnels.claim(node_id=agent.node.pk, generation=1, process="gateway@0", peer="p", now=now)


def test_a_clone_suspends_the_node_and_its_owner_sees_both_addresses(agent, now):
    twin = agent.twin("i-2")
    for step, process in enumerate((agent, twin, agent, twin)):
        process.open(now + timedelta(seconds=20 * step))

    with pytest.raises(sessions.NodeCloned):
        agent.open(now + timedelta(seconds=80))

    agent.node.refresh_from_db()
    assert (agent.node.state, agent.node.state_code, agent.node.state_cause) == ("suspended", "node_cloned", "node")
    event = NodeEvent.objects.get(code="node_cloned")
    assert event.detail == {"addresses": ["192.0.2.7", "198.51.100.9"]}
    for process in (agent, twin):
        with pytest.raises(sessions.NodeCloned):
            sessions.authenticate(token=process.token, now=now + timedelta(seconds=81))
        with pytest.raises(sessions.NodeCloned):
            process.open(now + timedelta(seconds=90))


def test_a_lifted_suspension_starts_with_a_clean_slate(agent, actor, now):
    twin = agent.twin("i-2")
    for step, process in enumerate((agent, twin, agent, twin)):
        process.open(now + timedelta(seconds=step))
    with pytest.raises(sessions.NodeCloned):
        agent.open(now + timedelta(seconds=5))

    lifecycle.lift_suspension(node_id=agent.node.public_id, actor=actor, now=now + timedelta(seconds=30))

    assert agent.open(now + timedelta(seconds=31)).generation == 6
    agent.node.refresh_from_db()
    assert agent.node.state == "checking"


def test_many_restarts_are_no_clone(agent, now):
    for step in range(30):
        agent.instance = f"i-{step}"
        agent.open(now + timedelta(seconds=step))

    agent.node.refresh_from_db()
    assert (agent.node.state, agent.node.generation) == ("checking", 30)


def test_a_suspended_node_is_told_the_reason(agent, actor, now):
    agent.open(now)
    lifecycle.suspend(node_id=agent.node.public_id, reason="Wrong answers", actor=actor, now=now)

    with pytest.raises(sessions.NodeSuspended, match="Wrong answers"):
        sessions.authenticate(token=agent.token, now=now)
    with pytest.raises(sessions.NodeSuspended, match="Wrong answers"):
        agent.open(now)


def test_a_retired_node_stays_out(agent, actor, now):
    agent.open(now)
    lifecycle.retire(node_id=agent.node.public_id, actor=actor, now=now)

    with pytest.raises(sessions.NodeRetired):
        agent.open(now)
    with pytest.raises(sessions.NodeRetired):
        sessions.authenticate(token=agent.token, now=now)


def test_an_unknown_token_is_an_expired_one(db, now):
    with pytest.raises(sessions.SessionExpired):
        sessions.authenticate(token="ph-session-nothing", now=now)


def test_old_sessions_are_forgotten(agent, now):
    for step in range(60):
        agent.instance = f"i-{step}"
        agent.open(now + timedelta(seconds=step))

    assert NodeSession.objects.count() == 50
