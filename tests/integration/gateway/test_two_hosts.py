"""Two gateway processes as on two hosts: a node's tunnel is at one, its customer at the other, TLS between them."""

from pathlib import Path

import pytest

from portal.nodes.models import Tunnel
from portal.sandbox import processes
from tests.fakes import scripts
from tests.fakes.authority import Authority
from tests.integration.gateway.pool import MODEL, Gateway, Pool

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(scope="module")
def hosts(pool: Pool, tmp_path_factory: pytest.TempPathFactory) -> list[Gateway]:
    folder: Path = tmp_path_factory.mktemp("authority")
    authority = Authority(folder)
    gateways = []
    for index, address in enumerate(("127.0.0.1", "127.0.0.2")):
        certificate, key = authority.issue(f"host-{index}", address)
        settings = {
            "GATEWAY_PEER_LISTEN": f"{address}:{processes.free_port()}",
            "GATEWAY_PEER_CERT": str(certificate),
            "GATEWAY_PEER_KEY": str(key),
            "GATEWAY_PEER_CA": str(authority.certificate),
            "GATEWAY_PEER_DIR": str(folder / f"host-{index}"),
        }
        gateways.append(pool.gateway(index=index, **settings))
    return gateways


def test_a_customer_of_one_host_is_served_by_the_other_hosts_node(pool: Pool, hosts: list[Gateway]) -> None:
    with_node, with_customer = hosts
    machine = pool.machine()
    node = pool.connect(machine, with_node, scripts.honest())
    fields = {"model": MODEL, "messages": [{"role": "user", "content": "What is a pool?"}], "max_tokens": 32}

    with pool.client(with_customer) as client:
        whole = client.post("/v1/chat/completions", json=fields)
        streamed = client.post("/v1/chat/completions", json=fields | {"stream": True})

    assert whole.status_code == 200, whole.text + with_customer.log
    assert whole.headers["x-pool-node"] == machine.node.public_id
    assert streamed.text.endswith("data: [DONE]\n\n")
    assert len(node.replies) == 2
    assert Tunnel.objects.get(node=machine.node).peer.startswith("tls://127.0.0.1:")
    assert [pool.record(answer.headers["x-request-id"]).routing["is_local"] for answer in (whole, streamed)] == [
        False,
        False,
    ]
