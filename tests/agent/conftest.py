"""A pool that is not there, and an agent that is."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from poolhouse_agent import identity, runtime, session
from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config
from poolhouse_agent.engine.deployment import Timing
from poolhouse_agent.runtime import Agent
from poolhouse_agent.state import Membership, State
from poolhouse_agent.tunnel.terms import USUAL, Terms

from tests.fakes.pool import Pool, running_pool

QUICK = Timing(
    poll_s=0.1, probe_every_s=1.0, stuck_after_s=1.0, drain_s=5.0, restart_first_s=0.1, restart_longest_s=0.2
)


@pytest.fixture
async def pool() -> AsyncIterator[Pool]:
    """A portal and gateway at the other end."""
    async with running_pool() as made:
        yield made


@pytest.fixture
def state(tmp_path: Path) -> State:
    """An empty state folder."""
    made = State(tmp_path / "state")
    made.create()
    return made


async def join(pool: Pool, state: State, *, simulate: str = "rtx4090x2") -> Membership:
    """Enrol this state at the pool."""
    key = identity.load_or_create(state.key_file)
    async with PortalClient(pool.server) as client:
        enrolled = await session.enrol(client, key, token=pool.token, name="n", is_simulated=bool(simulate), host={})
    member = Membership(enrolled.node, enrolled.provider, pool.server, "n", simulate)
    state.store_membership(member)
    return member


@contextlib.asynccontextmanager
async def running_agent(
    state: State, *, config: Config | None = None, timing: Timing = QUICK, terms: Terms = USUAL
) -> AsyncIterator[Agent]:
    """Run a joined agent in this process."""
    async with runtime.assembled(state, config or Config(), timing=timing, terms=terms) as agent:
        work = asyncio.create_task(agent.run())
        try:
            yield agent
        finally:
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


@pytest.fixture
async def serving(pool: Pool, state: State) -> AsyncIterator[Agent]:
    """A simulated agent whose model is ready."""
    await join(pool, state)
    async with running_agent(state) as agent:
        await (await pool.tunnel()).until_ready()
        yield agent


@pytest.fixture
def behave(state: State) -> Callable[[str], None]:
    """Change how the simulated engine behaves."""

    def change(name: str) -> None:
        state.behaviour_file.write_text(name, encoding="utf-8")

    return change
