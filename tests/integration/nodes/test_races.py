"""Two at once, with real transactions: one token, one session, one tunnel has one winner."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.db import connection

from portal.audit.services import Actor
from portal.core.errors import DomainError
from portal.nodes.models import EnrolmentToken, Node, NodeSession, SessionChallenge, Tunnel
from portal.nodes.services import enrolment, sessions, tunnels
from tests.factories.nodes import AgentKey, NodeFactory
from tests.factories.providers import ProviderFactory
from tests.integration.nodes.agent import Agent

pytestmark = pytest.mark.django_db(transaction=True)
NOW = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
AT_ONCE = 6


def race(*acts: Callable[[], object]) -> list[object]:
    """Run all acts at the same moment, each on a connection of its own; return results and refusals in order."""
    start = threading.Barrier(len(acts))
    outcomes: list[object] = [None] * len(acts)

    def run(index: int, act: Callable[[], object]) -> None:
        try:
            start.wait(timeout=20)
            outcomes[index] = act()
        except DomainError as refusal:
            outcomes[index] = refusal.code
        finally:
            connection.close()

    threads = [threading.Thread(target=run, args=(index, act)) for index, act in enumerate(acts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return outcomes


@pytest.fixture
def token() -> str:
    return enrolment.create_token(
        provider=ProviderFactory(), label="x", created_by=None, actor=Actor("user_test"), now=NOW
    ).text


def test_many_machines_with_one_token(token):
    agents = [Agent(key=AgentKey.of(number)) for number in range(AT_ONCE)]

    outcomes = race(*[lambda agent=agent: agent.enrol(token, NOW).is_new for agent in agents])

    assert sorted(outcomes, key=str) == [True] + ["enrolment_token_used"] * (AT_ONCE - 1)
    assert Node.objects.count() == 1
    assert EnrolmentToken.objects.get().node == Node.objects.get()


def test_one_machine_that_retries_while_its_first_try_still_runs(token):
    outcomes = race(*[lambda: Agent(key=AgentKey.of(1)).enrol(token, NOW).is_new for _ in range(AT_ONCE)])

    assert sorted(outcomes) == [False] * (AT_ONCE - 1) + [True]
    assert Node.objects.count() == 1


def test_one_key_with_many_tokens():
    provider = ProviderFactory()
    texts = [
        enrolment.create_token(provider=provider, label=str(n), created_by=None, actor=Actor("u"), now=NOW).text
        for n in range(AT_ONCE)
    ]

    outcomes = race(*[lambda text=text: Agent(key=AgentKey.of(1)).enrol(text, NOW).is_new for text in texts])

    assert sorted(outcomes, key=str) == [True] + ["node_key_taken"] * (AT_ONCE - 1)
    assert EnrolmentToken.objects.filter(node__isnull=False).count() == 1


def test_sessions_that_race_have_one_newest():
    node = NodeFactory(public_key=AgentKey.of(1).public, generation=0, state="enrolled")
    agents = [Agent(key=AgentKey.of(1), instance=f"i-{number}", node=node) for number in range(AT_ONCE)]

    race(*[lambda agent=agent: agent.open(NOW).generation for agent in agents])

    assert sorted(agent.generation for agent in agents) == list(range(1, AT_ONCE + 1))
    newest = max(agents, key=lambda agent: agent.generation)
    for agent in agents:
        if agent is newest:
            assert sessions.authenticate(token=agent.token, now=NOW).generation == AT_ONCE
        else:
            with pytest.raises(sessions.SessionSuperseded):
                sessions.authenticate(token=agent.token, now=NOW)


def test_one_nonce_answered_many_times_at_once():
    node = NodeFactory(public_key=AgentKey.of(1).public, generation=0, state="enrolled")
    request = Agent(key=AgentKey.of(1), node=node).request(NOW)

    outcomes = race(
        *[
            lambda: sessions.open_session(request=request, bearer="", address=None, now=NOW).generation
            for _ in range(AT_ONCE)
        ]
    )

    assert sorted(outcomes, key=str) == [1] + ["nonce_invalid"] * (AT_ONCE - 1)
    assert (NodeSession.objects.count(), SessionChallenge.objects.count()) == (1, 1)


def test_claims_of_a_tunnel_that_race_leave_the_newest_generation():
    node = NodeFactory(generation=2)
    stale = [
        lambda: tunnels.claim(node_id=node.pk, generation=1, process="gateway@old", peer="p", now=NOW) for _ in range(3)
    ]
    fresh = [
        lambda index=index: tunnels.claim(node_id=node.pk, generation=2, process=f"gateway@{index}", peer="p", now=NOW)
        for index in range(3)
    ]

    outcomes = race(*stale, *fresh)

    assert outcomes == [False, False, False, True, True, True]
    row = Tunnel.objects.get()
    assert row.generation == 2
    assert row.process != "gateway@old"
