"""Takes a simulated fleet out of the pool again, and deletes its identities."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

from poolhouse_agent.config import Config
from poolhouse_agent.engine.deployments import Deployments
from poolhouse_agent.engine.gpus import GpuChoice
from poolhouse_agent.engine.workshop import Workshop
from poolhouse_agent.errors import PortalError
from poolhouse_agent.heartbeat import Heart
from poolhouse_agent.nvml.inventory import GpuReport
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.simulate.fleet import kinds
from poolhouse_agent.simulate.fleet.conditions import Conditions, Weather
from poolhouse_agent.simulate.fleet.fleet import shared_by_all
from poolhouse_agent.simulate.fleet.identities import Identities, Member
from poolhouse_agent.simulate.fleet.inventory import FleetInventory
from poolhouse_agent.simulate.fleet.link import Link
from poolhouse_agent.simulate.fleet.node import Shared
from poolhouse_agent.state import State, Wish

_AT_ONCE = 8
_PATIENCE_S = 60.0
_GONE = frozenset({"node_retired", "node_unknown"})


class _Leaving(State):
    def wish(self) -> Wish:
        return Wish.LEAVE


async def retire(folder: Path, *, server: str, watch: Callable[[int], None]) -> dict[str, int]:
    """Let every node of the folder leave the pool; return how many left, and how many are kept for another try.

    Raises ConfigError where an identity is damaged.
    """
    identities = Identities(folder)
    members = [member for member in identities.known() if member.membership.server == server]
    counts = {"left": 0, "kept": 0}
    async with shared_by_all(server) as shared:
        work = iter(members)
        await asyncio.gather(*(_some(work, identities, shared, counts, watch) for _ in range(_AT_ONCE)))
    return counts


async def _some(
    work: Iterator[Member],
    identities: Identities,
    shared: Shared,
    counts: dict[str, int],
    watch: Callable[[int], None],
) -> None:
    for member in work:
        if await _leave(member, shared):
            identities.forget(member)
            counts["left"] += 1
        else:
            counts["kept"] += 1
        watch(counts["left"])


async def _leave(member: Member, shared: Shared) -> bool:
    """Tell the pool that the node leaves; say whether the pool knows."""
    conditions = Conditions(kinds.find("healthy"), Weather(), seed="")
    membership = member.membership
    client = Link(membership.server, transport=shared.transport, conditions=conditions, figures=shared.figures)
    async with client:
        heart = Heart(
            client,
            SessionKeeper(client, member.identity, node=membership.node),
            deployments=Deployments(Workshop(Config(), shared.engines, member.state.engines, GpuChoice(GpuReport))),
            inventory=FleetInventory(conditions, node=membership.node),
            state=_Leaving(member.state.folder),
        )
        heart.read_machine_with(shared.machine)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await heart.run()
        except TimeoutError:
            return heart.last_error is not None and heart.last_error.code in _GONE
        except PortalError as error:
            return error.code in _GONE
    return True
