"""The identities of a simulated fleet: one folder a node, kept from run to run like any agent's state."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from poolhouse_agent import host, identity, session
from poolhouse_agent.client import PortalClient
from poolhouse_agent.errors import ConfigError
from poolhouse_agent.identity import Identity
from poolhouse_agent.state import Membership, State

_KEY_WORD = "fleet"


@dataclass(frozen=True, slots=True)
class Member:
    """One node that has joined: where it keeps its key, who it is."""

    state: State
    membership: Membership
    identity: Identity


class Identities:
    """The folder of a fleet."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def state(self, number: int) -> State:
        """The state folder of node `number`, from 0."""
        return State(self.folder / f"sim-{number:05d}")

    def known(self) -> Iterator[Member]:
        """All nodes that have joined. Raises ConfigError where a folder is damaged."""
        for folder in sorted(self.folder.glob("sim-*")):
            state = State(folder)
            membership = state.membership()
            if membership is not None:
                yield Member(state, membership, identity.load(state.key_file))

    def member(self, number: int, *, server: str) -> Member | None:
        """The node that joined under this number, or None. Raises ConfigError where it is of another pool."""
        state = self.state(number)
        membership = state.membership()
        if membership is None:
            return None
        if membership.server != server:
            raise ConfigError("already_joined", f"{state.folder} is a node of {membership.server}")
        return Member(state, membership, identity.load(state.key_file))

    async def join(self, number: int, client: PortalClient, *, token: str) -> Member:
        """Enrol node `number`. A reply that was lost may be asked for again. Raises PortalError, ConfigError."""
        state = self.state(number)
        state.create()
        key, name = identity.load_or_create(state.key_file), state.folder.name
        enrolled = await session.enrol(client, key, token=token, name=name, is_simulated=True, host=host.facts())
        membership = Membership(enrolled.node, enrolled.provider, client.server, name, _KEY_WORD)
        state.store_membership(membership)
        return Member(state, membership, key)

    def forget(self, member: Member) -> None:
        """Delete what was kept of a node."""
        shutil.rmtree(member.state.folder)
