"""Who may hold a tunnel, and what ends one."""

import json

import httpx
import pytest

from portal.core import clock
from portal.gateway.tunnel import frames
from portal.integrations import bus
from portal.nodes.models import Node, NodeState, Tunnel
from portal.nodes.services import sessions
from tests.fakes import scripts
from tests.fakes.scripted_node import ScriptedNode
from tests.integration.gateway.pool import MODEL, Gateway, Machine, Pool, until

pytestmark = pytest.mark.django_db(transaction=True)

GOOD = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}


@pytest.fixture(scope="module")
def gateway(pool: Pool) -> Gateway:
    return pool.gateway()


@pytest.fixture
def machine(pool: Pool) -> Machine:
    return pool.machine()


def _dial(gateway: Gateway, token: str) -> ScriptedNode:
    url = f"ws://127.0.0.1:{gateway.port}/agent/v1/tunnel"
    return ScriptedNode(url=url, token=token, model=MODEL, script=scripts.honest()).start()


@pytest.mark.parametrize("token", ["", "ph-session-unknown", "x" * 600])
def test_without_a_session_there_is_no_tunnel(gateway: Gateway, token: str) -> None:
    node = _dial(gateway, token)

    assert node.wait_closed() == 4401
    node.stop()


def test_a_newer_session_closes_the_older_tunnel(pool: Pool, gateway: Gateway, machine: Machine) -> None:
    older = pool.connect(machine, gateway, scripts.honest())

    machine.session()

    assert older.wait_closed(2) == 4409


def test_an_older_session_gets_no_tunnel(gateway: Gateway, machine: Machine) -> None:
    old = machine.session()
    machine.session()

    node = _dial(gateway, old)

    assert node.wait_closed() == 4409
    node.stop()


def test_the_same_session_may_connect_again_and_the_older_socket_goes(
    pool: Pool, gateway: Gateway, machine: Machine
) -> None:
    token = machine.session()
    first, second = _dial(gateway, token), _dial(gateway, token)

    assert first.wait_closed() == 4409
    assert not second.is_away.is_set()
    first.stop()
    second.stop()


def test_a_suspended_node_loses_its_tunnel(pool: Pool, gateway: Gateway, machine: Machine) -> None:
    node = pool.connect(machine, gateway, scripts.honest())

    Node.objects.filter(pk=machine.node.pk).update(state=NodeState.SUSPENDED)
    bus.announce("nodes", machine.node.public_id)

    assert node.wait_closed(15) in {4401, 4409}


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\x12",
        frames.pack(frames.DATA, 7, b"x"),
        frames.pack(frames.HELLO, 0, b"{}"),
        frames.pack(frames.STATUS, 0, b"not json"),
        frames.pack(frames.STATUS, 0, b'{"deployments": 5}'),
        frames.pack(frames.STATUS, 0, b'{"deployments": [{"model": 5}]}'),
        frames.pack(frames.REQUEST, 1, b"{}\n"),
        frames.pack(0x7F, 0, b""),
    ],
)
def test_whoever_breaks_the_protocol_is_closed_and_nobody_else_notices(
    pool: Pool, gateway: Gateway, machine: Machine, message: bytes
) -> None:
    neighbour = pool.connect(pool.machine(), gateway, scripts.honest())
    node = pool.connect(machine, gateway, scripts.honest())

    node.send(message)

    assert node.wait_closed() == 4400
    with pool.client(gateway) as client:
        assert client.post("/v1/chat/completions", json=GOOD).status_code == 200
    assert not neighbour.is_away.is_set()
    neighbour.stop()


def test_a_message_larger_than_a_megabyte_ends_the_tunnel(pool: Pool, gateway: Gateway, machine: Machine) -> None:
    node = pool.connect(machine, gateway, scripts.honest())

    node.send(frames.pack(frames.DATA, 1, b"x" * 1_100_000))

    assert node.wait_closed() == 1009


def test_the_claim_is_given_back(pool: Pool, gateway: Gateway, machine: Machine) -> None:
    node = pool.connect(machine, gateway, scripts.honest())

    node.stop()

    until("the claim is gone", lambda: not Tunnel.objects.filter(node=machine.node).exists(), 3)


def test_a_status_takes_a_model_out_of_routing(pool: Pool, gateway: Gateway, machine: Machine) -> None:
    node = pool.connect(machine, gateway, scripts.honest())
    with pool.client(gateway) as client:
        until("it serves", lambda: client.post("/v1/chat/completions", json=GOOD).status_code == 200, 3)

        rows = [{"model": MODEL, "state": "starting", "max_concurrency": 4}]
        node.send(frames.pack(frames.STATUS, 0, json.dumps({"deployments": rows}).encode()))

        until("it is not asked", lambda: client.post("/v1/chat/completions", json=GOOD).status_code == 503, 3)
    node.stop()


def test_draining_lets_streams_end_and_sends_agents_away(pool: Pool) -> None:
    gateway = pool.gateway(index=5)
    node = pool.connect(pool.machine(), gateway, scripts.honest(pause_s=0.05))
    with (
        pool.client(gateway) as client,
        client.stream("POST", "/v1/chat/completions", json=GOOD | {"stream": True}) as response,
    ):
        lines = response.iter_lines()
        next(lines)
        assert gateway.process is not None
        gateway.process.terminate()
        until("it listens no more", lambda: _refuses(gateway), 3)

        rest = "\n".join(lines)

    assert rest.rstrip().endswith("data: [DONE]")
    assert gateway.process.wait(10) is not None
    assert node.close_code in {1000, 1012, None}


def _refuses(gateway: Gateway) -> bool:
    try:
        httpx.get(f"{gateway.url}/healthz", timeout=1)
    except httpx.ConnectError:
        return True
    return False


def test_sessions_are_checked_by_the_portals_rules(machine: Machine) -> None:
    identity = sessions.authenticate(token=machine.session(), now=clock.now())

    assert identity.node_id == machine.node.pk
