"""The portal answers the golden requests with the golden answers."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
import time_machine
from django.test import Client

from portal.nodes.models import EngineKind, Node, NodeState, ObservedState, SessionChallenge
from portal.nodes.rules import signatures
from portal.providers.models import Provider
from tests.contract.agent_protocol.goldens import assert_matches, golden, names
from tests.factories.catalog import CatalogModelFactory
from tests.factories.nodes import (
    AgentKey,
    DeploymentFactory,
    EnrolmentTokenFactory,
    NodeFactory,
    NodeSessionFactory,
)
from tests.factories.providers import ProviderFactory

NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
NODE, PROVIDER = "node_0123456789abcdefghjk", "prov_0123456789abcdefghjk"
TOKEN, SESSION = "ph-enrol-" + "0" * 32, "ph-session-" + "0" * 40
NONCE = "a1" * 32


@pytest.fixture(autouse=True)
def fixed_time():
    with time_machine.travel(NOW, tick=False):
        yield


@pytest.fixture(autouse=True)
def addresses(settings) -> None:
    settings.PUBLIC_URL = "https://pool.example"
    settings.GATEWAY_URL = "https://api.pool.example"


@pytest.fixture
def provider(db) -> Provider:
    return ProviderFactory(public_id=PROVIDER)


@pytest.fixture
def token(provider):
    return EnrolmentTokenFactory(provider=provider, token_hash=_sha(TOKEN), label="rack 4")


@pytest.fixture
def node(provider) -> Node:
    return NodeFactory(
        provider=provider,
        public_id=NODE,
        public_key=AgentKey.of(1).public,
        name="rack4-7",
        state=NodeState.CHECKING,
        state_code="session_opened",
        generation=7,
    )


@pytest.fixture
def session(node):
    return NodeSessionFactory(node=node, token_hash=_sha(SESSION), instance="i-1", expires_at=NOW.replace(hour=13))


@pytest.fixture
def nonce(node):
    return SessionChallenge.objects.create(node=node, nonce=NONCE, expires_at=NOW.replace(minute=1))


def test_a_machine_joins(token) -> None:
    _play("enrol_new")

    joined = Node.objects.get()
    assert (joined.name, joined.state, joined.node_class) == ("rack4-7", "enrolled", "community")


def test_a_lost_reply_is_given_again(token, node) -> None:
    token.node, token.used_at = node, NOW
    token.save()

    _play("enrol_retry")


def test_a_used_token_is_refused_to_another_key(token) -> None:
    token.node, token.used_at = NodeFactory(provider=token.provider, name="rack4-7"), NOW
    token.save()

    _play("enrol_token_used")


def test_an_unknown_token_is_refused(provider) -> None:
    _play("enrol_token_invalid")


def test_a_wrong_type_is_named(token) -> None:
    _play("enrol_invalid_value")


def test_a_challenge_is_given(node) -> None:
    _play("challenge")


def test_a_session_opens(node, nonce) -> None:
    node.generation = 6
    node.save()

    _play("session_open")


def test_a_session_is_renewed(node, nonce, session) -> None:
    _play("session_renew")


def test_a_used_nonce_is_refused(node) -> None:
    _play("session_nonce_invalid")


def test_a_suspended_node_is_told_why(node, nonce) -> None:
    node.state, node.state_code = NodeState.SUSPENDED, "node_cloned"
    node.save()

    _play("session_node_cloned")


def test_a_first_heartbeat(node, session) -> None:
    _play("heartbeat_first")


def test_a_heartbeat_of_an_owner_who_rests(node, session) -> None:
    _play("heartbeat_owner_rests")

    node.refresh_from_db()
    assert (node.state, node.state_code, node.state_cause) == ("maintenance", "owner_quiet_hours", "provider")


def test_a_serving_heartbeat(node, session) -> None:
    model = CatalogModelFactory(
        plain=True,
        public_id="acme/chat-8b",
        artefact_digest="9f" * 32,
        engine_args={"enable_prefix_caching": True},
    )
    DeploymentFactory(
        node=node,
        model=model,
        public_id="dep_0123456789abcdefghjk",
        engine=EngineKind.VLLM,
        observed=ObservedState.STARTING,
    )

    _play("heartbeat_serving")


def test_a_superseded_session(node, session) -> None:
    node.generation = 8
    node.save()

    _play("heartbeat_superseded")


def test_the_signature_vector() -> None:
    vector = golden("session_signature")
    message = signatures.session_message(
        nonce=vector["nonce"], node=vector["node"], public_url=vector["public_url"], protocol=vector["protocol"]
    )

    assert message.decode() == vector["message"]
    assert signatures.is_signed(public_key=vector["public_key"], message=message, signature=vector["signature"])


def test_every_exchange_is_played_here() -> None:
    played = set(_played_names())

    assert played == set(names("enrol")) | set(names("challenge")) | set(names("session_")) - {
        "session_signature"
    } | set(names("heartbeat"))


def _play(name: str) -> None:
    request: dict[str, Any] = golden(name)["request"]
    headers = {"authorization": request["authorization"]} if request["authorization"] else {}

    answer = Client().post(
        request["path"], request["body"], content_type="application/json", secure=True, headers=headers
    )

    assert_matches(name, status=answer.status_code, body=answer.json())


def _played_names() -> list[str]:
    import re
    from pathlib import Path

    return re.findall(r'_play\("(\w+)"\)', Path(__file__).read_text(encoding="utf-8"))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
