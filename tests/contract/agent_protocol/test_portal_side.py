"""The portal answers the golden requests with the golden answers.

Each is played three times: by an agent of today, by one of the minor release before as its goldens were kept, and by
one of the next, whose messages have fields that this portal does not know.
"""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
import time_machine
from django.test import Client
from poolhouse_common.receipts import TunnelDigest, claim_message, countersign_message

from portal.audit.services import SYSTEM_ACTOR
from portal.billing.rules.receipt_keys import key_of
from portal.billing.rules.receipts import compare
from portal.nodes.models import (
    EngineKind,
    Node,
    NodeState,
    ObservedState,
    ReleaseRing,
    RoundReason,
    RoundState,
    SessionChallenge,
)
from portal.nodes.rules import signatures
from portal.nodes.services.releases import publish
from portal.providers.models import Provider
from tests.contract.agent_protocol.goldens import (
    PREVIOUS,
    assert_matches,
    from_the_future,
    golden,
    holds,
    masked,
    names,
    released,
)
from tests.factories.catalog import CatalogModelFactory
from tests.factories.checks import CheckRoundFactory, ReferenceFigureFactory
from tests.factories.nodes import (
    AgentKey,
    DeploymentFactory,
    EnrolmentTokenFactory,
    GpuFactory,
    NodeFactory,
    NodeSessionFactory,
)
from tests.factories.providers import ProviderFactory
from tests.factories.releases import PUBLIC_KEY, files

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


@pytest.fixture
def asked(node, session):
    """A round that the node is asked for."""
    node.has_check_matters = True
    node.save()
    return CheckRoundFactory(
        node=node,
        public_id="round_0123456789abcdefghjk",
        reason=RoundReason.DEMAND,
        state=RoundState.ASKED,
        started_at=None,
        ended_at=None,
    )


def test_a_machine_joins(play, token) -> None:
    play("enrol_new")

    joined = Node.objects.get()
    assert (joined.name, joined.state, joined.node_class) == ("rack4-7", "enrolled", "community")


def test_a_lost_reply_is_given_again(play, token, node) -> None:
    token.node, token.used_at = node, NOW
    token.save()

    play("enrol_retry")


def test_a_used_token_is_refused_to_another_key(play, token) -> None:
    token.node, token.used_at = NodeFactory(provider=token.provider, name="rack4-7"), NOW
    token.save()

    play("enrol_token_used")


def test_an_unknown_token_is_refused(play, provider) -> None:
    play("enrol_token_invalid")


def test_a_wrong_type_is_named(play, token) -> None:
    play("enrol_invalid_value")


def test_a_challenge_is_given(play, node) -> None:
    play("challenge")


def test_a_session_opens(play, node, nonce) -> None:
    node.generation = 6
    node.save()

    play("session_open")


def test_a_session_is_renewed(play, node, nonce, session) -> None:
    play("session_renew")


def test_a_used_nonce_is_refused(play, node) -> None:
    play("session_nonce_invalid")


def test_a_suspended_node_is_told_why(play, node, nonce) -> None:
    node.state, node.state_code = NodeState.SUSPENDED, "node_cloned"
    node.save()

    play("session_node_cloned")


def test_a_first_heartbeat(play, node, session) -> None:
    play("heartbeat_first")


def test_a_heartbeat_that_tells_of_the_hardware(play, node, session) -> None:
    play("heartbeat_hardware")

    (gpu,) = node.gpus.all()
    told = golden("heartbeat_hardware")["request"]["body"]
    assert gpu.report["values"] == told["gpus"][0]["values"]
    assert gpu.report["missing"] == told["gpus"][0]["missing"]
    assert [one["uuid"][:4] for one in gpu.report["instances"]] == ["MIG-", "MIG-"]
    node.refresh_from_db()
    assert node.load["host"] == told["host"]
    assert node.load["host_missing"] == told["host_missing"]


def test_a_heartbeat_of_an_owner_who_rests(play, node, session) -> None:
    play("heartbeat_owner_rests")

    node.refresh_from_db()
    assert (node.state, node.state_code, node.state_cause) == ("maintenance", "owner_quiet_hours", "provider")


def test_a_serving_heartbeat(play, node, session) -> None:
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

    play("heartbeat_serving")


def test_a_release_is_offered_to_an_agent_that_takes_updates(play, settings, node, session) -> None:
    settings.AGENT_RELEASE_PUBLIC_KEY = PUBLIC_KEY
    publish(files=files("0.2.0"), ring=ReleaseRing.ALL, percent=100, actor=SYSTEM_ACTOR, now=NOW)

    play("heartbeat_release")

    assert (node.updates.policy, node.updates.tried) == ("automatic", "")


def test_a_round_of_checks_is_asked_for(play, asked) -> None:
    play("heartbeat_checks")


def test_a_round_is_reported(play, node, asked) -> None:
    GpuFactory(node=node, uuid="GPU-5b6d6a7e-0000-0000-0000-000000000001")
    ReferenceFigureFactory(hardware="NVIDIA GeForce RTX 4090", figure_milli=165_000)

    play("checks_report")

    asked.refresh_from_db()
    assert (asked.state, asked.percent, asked.doing) == ("running", 40, "6/15 matrix product, bf16")
    assert asked.results.get(check_id="gpu.vram").evidence["torn"] == [3, 4]


def test_a_round_ends(play, asked) -> None:
    play("checks_report_done")


def test_a_round_that_was_not_asked_for_is_unknown(play, asked) -> None:
    play("checks_round_unknown")


def test_an_echo_has_the_wanted_length(play, session) -> None:
    play("checks_echo")


def test_a_superseded_session(play, node, session) -> None:
    node.generation = 8
    node.save()

    play("heartbeat_superseded")


def test_the_signature_vector() -> None:
    vector = golden("session_signature")
    message = signatures.session_message(
        nonce=vector["nonce"], node=vector["node"], public_url=vector["public_url"], protocol=vector["protocol"]
    )

    assert message.decode() == vector["message"]
    assert signatures.is_signed(public_key=vector["public_key"], message=message, signature=vector["signature"])


def test_claims_of_attempts_that_are_not_recorded_yet_wait(play, node, session, settings) -> None:
    settings.RECEIPT_SIGNING_KEY = golden("receipt_vector")["seed"]

    play("receipts_waiting")


def test_a_receipt_has_the_golden_bytes() -> None:
    vector = golden("receipt_vector")
    receipt, key = vector["receipt"], key_of(vector["seed"])
    taken = TunnelDigest(receipt["claim"]["nonce"], vector["body"].encode())
    for piece in vector["pieces"]:
        taken.add(piece.encode())

    assert taken.proof() == vector["proof"]
    assert compare(proof=vector["proof"], claim=receipt["claim"], is_whole=True) == "equal"
    assert signatures.is_signed(
        public_key=receipt["node_key"], message=claim_message(receipt["claim"]), signature=receipt["node_signature"]
    )
    assert key.sign(countersign_message(receipt)) == receipt["portal_signature"]
    assert key.unseal(receipt["sealed"], attempt=receipt["claim"]["attempt"]) == b"golden"
    assert key.unseal(receipt["sealed"], attempt="another/1") is None


def test_every_exchange_is_played_here() -> None:
    played = set(_played_names())

    assert played == set(names("enrol")) | set(names("challenge")) | set(names("session_")) - {
        "session_signature"
    } | set(names("heartbeat")) | set(names("checks")) | set(names("receipts"))


def _ask(request: dict[str, Any]) -> Any:
    headers = {"authorization": request["authorization"]} if request["authorization"] else {}
    return Client().post(
        request["path"], request["body"], content_type="application/json", secure=True, headers=headers
    )


def _play_today(name: str) -> None:
    answer = _ask(golden(name)["request"])

    assert_matches(name, status=answer.status_code, body=answer.json())


def _play_next(name: str) -> None:
    request = golden(name)["request"]

    answer = _ask({**request, "body": from_the_future(request["body"])})

    assert_matches(name, status=answer.status_code, body=answer.json())


def _play_previous(name: str, release: str) -> None:
    exchange = released(name, release)
    if exchange is None:
        pytest.skip(f"{release} had no such message")

    answer = _ask(exchange["request"])

    assert answer.status_code == exchange["response"]["status"]
    hidden = exchange["volatile"]
    assert holds(masked(answer.json(), hidden), masked(exchange["response"]["body"], hidden))


@pytest.fixture(params=["today", "next", *PREVIOUS])
def play(request):
    """Plays a golden as an agent of one of the releases does."""
    match request.param:
        case "today":
            return _play_today
        case "next":
            return _play_next
    return lambda name: _play_previous(name, request.param)


def _played_names() -> list[str]:
    import re
    from pathlib import Path

    return re.findall(r' play\("(\w+)"\)', Path(__file__).read_text(encoding="utf-8"))


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
