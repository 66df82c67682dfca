"""Sessions: opened by a signature, renewed in time, opened anew after their end, left to whoever took over."""

import asyncio

import pytest
from poolhouse_agent import identity, runtime, session
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config
from poolhouse_agent.errors import PortalError
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import State

from tests.agent.conftest import join, running_agent
from tests.fakes.pool import Pool


async def test_a_session_is_renewed_before_it_ends_and_the_tunnel_stays(pool: Pool, state: State) -> None:
    pool.session_s = 5
    await join(pool, state)

    async with running_agent(state):
        tunnel = await pool.tunnel()
        await tunnel.until_ready()
        async with asyncio.timeout(15):
            while sum(one["is_renewal"] for one in pool.sessions) < 2:
                await asyncio.sleep(0.05)

    assert [one["is_renewal"] for one in pool.sessions] == [False, True, True]
    assert pool.generation == 1
    assert len({one["instance"] for one in pool.sessions}) == 1
    assert len({one["nonce"] for one in pool.sessions}) == 3
    assert len(pool.tunnels) == 1


async def test_an_ended_session_is_opened_anew(pool: Pool, state: State) -> None:
    await join(pool, state)

    async with running_agent(state):
        await (await pool.tunnel()).until_ready()
        pool._bearers.clear()
        beats = len(pool.heartbeats)
        async with asyncio.timeout(10):
            while len(pool.heartbeats) == beats:
                await asyncio.sleep(0.05)

    assert pool.generation == 2
    assert not any(one["is_renewal"] for one in pool.sessions)


async def test_a_superseded_heartbeat_keeps_the_agent_away(pool: Pool, state: State) -> None:
    await join(pool, state)

    async with running_agent(state) as agent:
        await (await pool.tunnel()).until_ready()
        pool.refuse["heartbeat"] = (409, "session_superseded")
        async with asyncio.timeout(10):
            while not agent.sessions.is_refused:
                await asyncio.sleep(0.02)
        sessions = len(pool.sessions)
        await asyncio.sleep(2.0)
        assert len(pool.sessions) == sessions


@pytest.mark.parametrize("code", ["node_suspended", "node_cloned"])
async def test_a_suspended_node_waits_and_comes_back(pool: Pool, state: State, code: str) -> None:
    await join(pool, state)
    pool.refuse["session"] = (403, code)

    async with running_agent(state) as agent:
        async with asyncio.timeout(10):
            while agent.heart.last_error is None:
                await asyncio.sleep(0.02)
        assert agent.heart.last_error.code == code
        assert agent.status()["portal"] == {"code": code, "detail": code.replace("_", " "), "fix": f"fix of {code}"}
        pool.refuse.clear()
        await (await pool.tunnel()).until_ready()


async def test_a_retired_node_ends(pool: Pool, state: State) -> None:
    await join(pool, state)
    pool.refuse["session"] = (403, "node_retired")

    async with runtime.assembled(state, Config()) as agent:
        with pytest.raises(PortalError) as raised:
            await asyncio.wait_for(agent.run(), 10)

    assert raised.value.code == "node_retired"


async def test_an_enrolment_may_be_repeated_with_the_same_key_only(pool: Pool, state: State, tmp_path: object) -> None:
    first = await join(pool, state)
    again = await join(pool, state)
    assert first == again

    stranger = State(state.folder.parent / "stranger")
    stranger.create()
    with pytest.raises(PortalError) as raised:
        await join(pool, stranger)
    assert raised.value.code == "enrolment_token_used"
    assert stranger.membership() is None


async def test_a_portal_that_is_down_is_unreachable_and_a_signature_is_never_reused(pool: Pool, state: State) -> None:
    member = await join(pool, state)
    key = identity.load(state.key_file)

    async with PortalClient(pool.server) as client:
        keeper = SessionKeeper(client, key, node=member.node)
        first, second = await asyncio.gather(keeper.ensure(), keeper.ensure())
        assert first is second
    async with PortalClient("http://127.0.0.1:9") as client:
        with pytest.raises(PortalError) as raised:
            await session.enrol(client, key, token="t", name="n", is_simulated=False, host={})

    assert raised.value.code == "portal_unreachable"
    assert len(pool.sessions) == 1
