"""Joins the supply of weights to the portal, which names files, and to the owner, who sets a quota."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from poolhouse_agent.client import PortalClient
from poolhouse_agent.config import Config
from poolhouse_agent.engine.launch import LEASE, Launcher
from poolhouse_agent.engine.supply import DOOR, Supply
from poolhouse_agent.owner import book, quota
from poolhouse_agent.owner.rules import OwnerRules
from poolhouse_agent.protocol import messages
from poolhouse_agent.protocol.messages import Manifest
from poolhouse_agent.session import SessionKeeper
from poolhouse_agent.state import State

# A download that no agent waits for is of no use to anybody.
_LEASE_S = 120.0


@dataclass(frozen=True, slots=True)
class OwnerQuota:
    """The owner's quota of this machine, as configuration and commands have it at the moment."""

    state: State
    table: Mapping[str, Any]

    @property
    def rules(self) -> OwnerRules:
        """The rules in force. Raises ConfigError."""
        return book.merged(self.table, book.load(self.state), where="the owner's rules")

    def left_bytes(self) -> int | None:
        """Return what may still be fetched; None where there is no limit. Raises ConfigError."""
        return quota.left_bytes(self.state, self.rules, now=datetime.now(UTC))

    def note(self, count: int) -> None:
        """Add bytes that were fetched. Raises ConfigError."""
        if count:
            quota.note(self.state, self.rules, count=count, now=datetime.now(UTC))


def supply(state: State, config: Config, client: PortalClient, sessions: SessionKeeper) -> Supply:
    """Build the supply of one agent. Raises ConfigError."""

    async def manifest(digest: str) -> Manifest:
        session = await sessions.ensure()
        answer = await client.post("/agent/v1/weights", {"artefact_digest": digest}, bearer=session.token)
        return messages.read_manifest(answer)

    launcher = Launcher(state.folder / LEASE, door=DOOR, lease_s=_LEASE_S)
    return Supply(state.folder, config.downloads, manifest, launcher, OwnerQuota(state, config.owner))
