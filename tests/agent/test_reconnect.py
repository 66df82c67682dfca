"""The tunnel comes back: at once after a restart, in its own time else, with a new session where that is wanted."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

import pytest
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import State
from poolhouse_agent.tunnel import keeper
from poolhouse_agent.tunnel.terms import USUAL, Terms

from tests.agent.conftest import join, running_agent
from tests.fakes.pool import CANCEL, GOAWAY, Pool, Tunnel

LONG = {"messages": [{"role": "user", "content": "write 2000 words"}], "stream": True, "max_tokens": 40}
SHORT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 3}


async def test_after_goaway_running_requests_end_first(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    stream = await tunnel.begin({"messages": [{"role": "user", "content": "write 200 words"}], "stream": True})
    await tunnel.until(lambda: bool(tunnel.answers[stream].body))

    await tunnel.send(GOAWAY, 0)
    late = await tunnel.ask(SHORT)
    running = await tunnel.finish(stream)
    again = await pool.tunnel(after=1)

    assert late.failure["code"] == "draining"
    assert running.failure is None
    assert again.generation == tunnel.generation
    assert (await again.ask(SHORT)).failure is None


async def test_after_goaway_the_next_tunnel_serves_while_the_old_one_ends(
    pool: Pool, serving: Agent, behave: Callable[[str], None]
) -> None:
    tunnel = await pool.tunnel()
    behave("slow")
    stream = await tunnel.begin(LONG | {"max_tokens": 8})
    await tunnel.until(lambda: bool(tunnel.answers[stream].body))
    behave("honest")

    await tunnel.send(GOAWAY, 0)
    again = await pool.tunnel(after=1)
    late = await again.ask(SHORT)

    assert late.failure is None
    assert again.generation == tunnel.generation
    assert not tunnel.answers[stream].is_ended
    assert (await tunnel.finish(stream)).failure is None


async def test_a_gateway_that_goes_away_again_and_again_opens_few_tunnels(
    pool: Pool, serving: Agent, behave: Callable[[str], None]
) -> None:
    behave("slow")
    begun: list[tuple[Tunnel, int]] = []
    for number in range(keeper._MAX_ENDING + 1):
        tunnel = await pool.tunnel(after=number)
        begun.append((tunnel, await tunnel.begin(LONG)))
        await tunnel.until(lambda: bool(begun[-1][0].answers[begun[-1][1]].body))
        await tunnel.send(GOAWAY, 0)
    await asyncio.sleep(0.3)

    assert len(pool.tunnels) == keeper._MAX_ENDING + 1
    for tunnel, stream in begun:
        await tunnel.send(CANCEL, stream)
    await pool.tunnel(after=keeper._MAX_ENDING + 1)


@pytest.mark.parametrize("sends_away", ["goaway", "restart"])
async def test_a_gateway_that_sends_its_fleet_away_is_met_again_after_a_draw(
    pool: Pool, state: State, sends_away: str
) -> None:
    """The wait after anything else is an hour here: only the draw brings the agent back."""
    chance = random.Random(4)  # noqa: S311  a draw that can be repeated
    terms = replace(USUAL, first_delay_s=3600.0, longest_delay_s=3600.0, chance=chance)
    await join(pool, state)
    async with running_agent(state, terms=terms):
        tunnel = await pool.tunnel()
        undrawn = chance.getstate()

        await (tunnel.send(GOAWAY, 0) if sends_away == "goaway" else tunnel.socket.close(code=1012))
        again = await pool.tunnel(after=1)

    assert chance.getstate() != undrawn
    assert again.generation == tunnel.generation


def test_a_fleet_that_was_sent_away_comes_back_spread_over_a_quarter_of_a_second() -> None:
    fleet = replace(USUAL, chance=random.Random(4))  # noqa: S311  a draw that can be repeated
    delays_ms = [1000 * fleet.draw_at_once_s() for _ in range(1000)]
    in_each_tenth = Counter(int((delay - 20) / 23) for delay in delays_ms)

    assert 20 <= min(delays_ms) <= max(delays_ms) <= 250
    assert sorted(in_each_tenth) == list(range(10))
    assert 60 < min(in_each_tenth.values()) <= max(in_each_tenth.values()) < 140


def test_two_agents_draw_differently() -> None:
    assert [Terms().draw_at_once_s() for _ in range(4)] != [Terms().draw_at_once_s() for _ in range(4)]


async def test_an_invalid_session_is_replaced(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()

    await tunnel.socket.close(code=4401)
    again = await pool.tunnel(after=1)

    assert again.generation == tunnel.generation + 1
    await again.until_ready()


async def test_a_superseded_agent_stays_away(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    sessions = len(pool.sessions)

    await tunnel.socket.close(code=4409)
    await asyncio.sleep(2.5)

    assert len(pool.tunnels) == 1
    assert len(pool.sessions) == sessions
    assert serving.sessions.is_refused


async def test_a_torn_connection_is_made_again(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    stream = await tunnel.begin({"messages": [{"role": "user", "content": "write 900 words"}], "stream": True})
    await tunnel.until(lambda: bool(tunnel.answers[stream].body))

    transport = tunnel.socket._req.transport  # type: ignore[union-attr]
    transport.abort()
    again = await pool.tunnel(after=1)

    await again.until_ready()
    async with asyncio.timeout(2.0):
        while serving.deployments.running:
            await asyncio.sleep(0.02)


async def test_requests_of_a_lost_tunnel_are_abandoned_in_the_engine(pool: Pool, serving: Agent) -> None:
    tunnel = await pool.tunnel()
    await tunnel.begin({"messages": [{"role": "user", "content": "write 900 words"}], "stream": True})
    await tunnel.until(lambda: bool(tunnel.answers[1].body))

    await tunnel.socket.close(code=1012)
    await pool.tunnel(after=1)

    beat = await pool.heartbeat(lambda beat: beat["deployments"][0]["running"] == 0)
    assert beat["deployments"][0]["state"] == "ready"


@pytest.mark.parametrize("status", [403, 500, 502])
async def test_a_refused_handshake_is_tried_again(pool: Pool, serving: Agent, status: int) -> None:
    tunnel = await pool.tunnel()
    pool.refuse["tunnel"] = (status, "no")

    await tunnel.socket.close(code=1012)
    await asyncio.sleep(0.5)
    pool.refuse.clear()
    again = await pool.tunnel(after=1)

    assert (await again.ask(SHORT)).failure is None


async def test_a_redirected_handshake_is_not_followed(pool: Pool, serving: Agent) -> None:
    from aiohttp import web

    tunnel = await pool.tunnel()
    pool.raw["tunnel"] = web.Response(status=307, headers={"location": pool.server + "/elsewhere"})

    await tunnel.socket.close(code=1012)
    await asyncio.sleep(0.5)

    assert len(pool.tunnels) == 1
    assert not serving.tunnel.is_connected


def test_delays_grow_to_half_a_minute_and_differ() -> None:
    from poolhouse_agent.backoff import Backoff

    backoff = Backoff(first_s=USUAL.first_delay_s, longest_s=USUAL.longest_delay_s)
    delays = [backoff.next_s() for _ in range(12)]

    assert delays[0] <= 0.5
    assert all(15.0 <= delay <= 30.0 for delay in delays[-3:])
    assert len(set(delays)) == len(delays)
