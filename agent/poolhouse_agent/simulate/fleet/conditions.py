"""What a simulated node lives through: its own rhythms, and the weather that all nodes share."""

import asyncio
import random
from dataclasses import dataclass, field

from poolhouse_agent.simulate.fleet.kinds import Kind, Rhythm


@dataclass(slots=True)
class Weather:
    """What befalls the whole fleet: while `is_silent` nothing reaches the portal; `was_silent` from the first on.

    `pace` is how many times faster than usual the nodes' own lives go.
    """

    pace: float = 1.0
    is_silent: bool = False
    was_silent: bool = False
    began_at: float = field(default_factory=lambda: asyncio.get_running_loop().time())

    @property
    def elapsed_s(self) -> float:
        """How long the fleet has been at it."""
        return asyncio.get_running_loop().time() - self.began_at

    def turn(self) -> None:
        """Begin a silence, or end it."""
        self.is_silent, self.was_silent = not self.is_silent, True


class Conditions:
    """One node's luck: the same for the same seed and number."""

    def __init__(self, kind: Kind, weather: Weather, *, seed: str) -> None:
        self.kind = kind
        self.weather = weather
        self._chance = random.Random(seed)  # noqa: S311  luck that can be repeated, not a secret
        self.gpus = self._chance.choice(kind.gpus)
        self._began_s = weather.elapsed_s
        # Every rhythm begins with its good time, so that a node is seen to work before it fails.
        self._head_start_s = self._chance.uniform(0.0, 0.5)

    @property
    def age_s(self) -> float:
        """How long the node has lived, in seconds of its own life."""
        return (self.weather.elapsed_s - self._began_s) * self.weather.pace

    @property
    def has_network(self) -> bool:
        """Whether the node reaches anything now."""
        return self._is_on(self.kind.network)

    @property
    def is_owner_away(self) -> bool:
        """Whether the owner lets the pool have the machine."""
        return self._is_on(self.kind.owner)

    @property
    def has_lost_gpu(self) -> bool:
        """Whether a GPU has fallen off the bus by now."""
        return self.kind.loses_gpu_after_s is not None and self.age_s >= self.kind.loses_gpu_after_s

    @property
    def wants_to_leave(self) -> bool:
        """Whether the owner has had enough."""
        return self.kind.leaves_after_s is not None and self.age_s >= self.kind.leaves_after_s

    def delay_s(self) -> float:
        """How long the next message is on its way."""
        return self._chance.uniform(*self.kind.delay_s)

    async def change_of(self, rhythm: Rhythm | None) -> None:
        """Wait until the rhythm changes; for ever where there is none."""
        if rhythm is None:
            await asyncio.get_running_loop().create_future()
            return
        await asyncio.sleep(rhythm.next_change_s(self._at_s(rhythm)) / self.weather.pace)

    def _is_on(self, rhythm: Rhythm | None) -> bool:
        return rhythm is None or rhythm.is_on(self._at_s(rhythm))

    def _at_s(self, rhythm: Rhythm) -> float:
        return self.age_s + self._head_start_s * rhythm.on_s
