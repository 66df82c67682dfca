"""A simulated fleet joins a real pool, serves it, lives its lives and leaves; a silence of all of it harms nobody."""

import signal
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import httpx
import pytest
from django.db import connection
from poolhouse_agent.simulate.fleet import mix

from portal.core import clock
from portal.nodes.models import CheckRound, Deployment, MassSilence, Node, NodeEvent, NodeState, RoundState
from portal.nodes.services.silence import sweep_silent
from portal.trust.models import NodeEvidence
from tests.integration.fleet.conftest import Trial
from tests.integration.gateway.pool import MODEL, until

pytestmark = pytest.mark.django_db(transaction=True)

MIX = "healthy=2,mig=1,broken=1,skewed=1,leaving=1,cheating=1"
NODES = 7
GOOD = {"model": MODEL, "messages": [{"role": "user", "content": "What is a pool?"}], "max_tokens": 12}


def by_kind(trial: Trial, weights: str, nodes: int) -> dict[str, Node]:
    """Return a node of each kind."""
    drawn = mix.draw(mix.parse(weights), nodes=nodes, seed=0)
    rows = {row.name: row for row in Node.objects.filter(provider=trial.provider)}
    return {kind.name: rows[f"sim-{number:05d}"] for number, kind in enumerate(drawn)}


def serving(trial: Trial) -> int:
    return Node.objects.filter(provider=trial.provider, state=NodeState.SERVING).count()


def test_a_fleet_of_many_kinds_joins_serves_and_leaves(trial: Trial) -> None:
    fleet = trial.start("--mix", MIX, "--pace", 10, nodes=NODES)
    try:
        until("all have joined", lambda: len(trial.states()) == NODES, 20)
        trial.deploy()
        found = by_kind(trial, MIX, NODES)
        until("the others serve", lambda: serving(trial) == NODES - 1, 25)
        until("one has left", lambda: _state(found["leaving"]) == (NodeState.RETIRED, "left"), 25)
        until("each has measured itself", lambda: _measured(trial) >= NODES - 1, 20)
        with trial.pool.client(trial.gateway) as client:
            answer = until("it answers", lambda: _answer(client), 20)
        report = trial.end(fleet)
    finally:
        fleet.kill()

    assert answer["usage"]["completion_tokens"] > 0
    healthy = report["nodes"]["by_kind"]["healthy"]  # as their last heartbeat was answered
    assert (sum(healthy.values()), set(healthy) <= {"ready", "serving"}) == (2, True)
    assert report["nodes"]["by_kind"]["leaving"] == {"left": 1}
    assert report["nodes"]["total"] == NODES
    skewed = Node.objects.get(pk=found["skewed"].pk)
    assert abs((skewed.clock_offset_ms or 0) - 3_600_000) < 60_000
    assert any("MIG" in one["name"] for gpu in found["mig"].gpus.all() for one in gpu.report["instances"])
    assert trial.retire() == {"left": NODES, "kept": 0}
    assert set(trial.states().values()) == {NodeState.RETIRED}
    assert list((trial.folder / "identities").iterdir()) == []


def test_a_silence_of_all_for_three_minutes_moves_and_reschedules_nobody(trial: Trial) -> None:
    fleet = trial.start("--mix", "healthy", nodes=6)
    try:
        until("all have joined", lambda: len(trial.states()) == 6, 20)
        trial.deploy()
        until("all serve", lambda: serving(trial) == 6, 25)
        fleet.send_signal(signal.SIGUSR1)
        before, last = facts(trial), clock.now()

        sweeps = [sweep_silent(now=last + timedelta(seconds=second)) for second in range(30, 181, 5)]
        fleet.send_signal(signal.SIGUSR1)
        until("all are heard again", lambda: _heard_since(trial, last) == 6, 45)
        report = trial.end(fleet)
    finally:
        fleet.kill()

    assert [sweep.moved for sweep in sweeps] == [0] * len(sweeps)
    assert (sweeps[-1].silent, sweeps[-1].is_platform_fault) == (6, True)
    assert MassSilence.objects.latest("id").nodes == 6
    assert facts(trial) == before
    assert report["nodes"]["tunnels"] == 6
    assert NodeEvidence.objects.filter(node__provider=trial.provider).count() == 0


def test_many_requests_at_the_portal_share_few_connections_to_the_database(trial: Trial) -> None:
    requests, at_once = 200, 8
    before = _sessions_ever()
    with ThreadPoolExecutor(at_once) as threads, httpx.Client(base_url=trial.url, timeout=30) as client:
        ask = partial(client.post, "/agent/v1/session/challenge", json={"node": "node_0123456789abcdefghjk"})
        statuses = {answer.status_code for answer in threads.map(lambda _: ask(), range(requests))}

    assert statuses == {404}
    assert _sessions_ever() - before < requests // 4


def _sessions_ever() -> int:
    """How many connections were ever made to this database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_clear_snapshot()")
        cursor.execute("SELECT sessions FROM pg_stat_database WHERE datname = current_database()")
        return int(cursor.fetchone()[0])


def _state(node: Node) -> tuple[str, str]:
    row = Node.objects.get(pk=node.pk)
    return row.state, row.state_code


def _measured(trial: Trial) -> int:
    return CheckRound.objects.filter(node__provider=trial.provider, state=RoundState.DONE).count()


def _answer(client: httpx.Client) -> Any:
    response = client.post("/v1/chat/completions", json=GOOD)
    return response.json() if response.status_code == 200 else None


def _heard_since(trial: Trial, at: datetime) -> int:
    return Node.objects.filter(provider=trial.provider, last_heartbeat_at__gt=at + timedelta(milliseconds=500)).count()


def facts(trial: Trial) -> Any:
    """All that a silence must leave alone: states, events, what runs where."""
    provider = trial.provider
    return (
        trial.states(),
        NodeEvent.objects.filter(node__provider=provider).count(),
        list(Deployment.objects.filter(node__provider=provider).order_by("id").values_list("node_id", "desired")),
    )
