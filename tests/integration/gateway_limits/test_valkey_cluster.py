"""A Valkey of the cluster kind refuses scripts that touch keys of two slots; ours touch one owner's alone."""

import time
from pathlib import Path

import pytest
import redis

from portal.gateway.contracts import Limits
from portal.sandbox import processes, servers
from tests.integration.gateway_limits.rig import gateways, key


@pytest.fixture
def cluster(tmp_path: Path):
    """A cluster of one node that has all slots."""
    options = {"cluster-enabled": "yes", "cluster-port": str(processes.free_port())}
    server = servers.start_valkey(tmp_path / "valkey", options=options)
    with redis.Redis.from_url(server.url) as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        deadline = time.monotonic() + 20
        while b"cluster_state:ok" not in client.execute_command("CLUSTER", "INFO"):
            assert time.monotonic() < deadline, "the cluster came up"
            time.sleep(0.05)
    yield server.url
    server.stop()


# litellm#15066
async def test_three_owners_limits_work_on_a_cluster(cluster: str) -> None:
    entry = key(
        Limits(requests_per_minute=30, tokens_per_minute=3_000),
        project=Limits(requests_per_minute=20),
        organization=Limits(parallel_requests=12, tokens_per_minute=10_000),
    )

    async with gateways(cluster) as two:
        admitted = [len(await two.admitted(number, entry, at_most=8, tokens=10)) for number in (0, 1, 0)]

    assert sum(admitted) == 12
