"""How a tunnel is held: how patient it is, and how it gathers tokens."""

import random
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds, and events a batch. A batch of one sends every token alone.

    A line that has gone dead without a word is noticed after `ping_s` and half as long again for the answer.
    `chance` draws when in `at_once_s` to come back to a gateway that sent its whole fleet away in the same moment.
    """

    ping_s: float = 20.0
    connect_s: float = 15.0
    at_once_s: tuple[float, float] = (0.02, 0.25)
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    batch_events: int = 4
    batch_wait_s: float = 0.040
    chance: random.Random = field(default_factory=random.Random, repr=False, compare=False)

    def draw_at_once_s(self) -> float:
        """Return how long to wait where the next tunnel is to come at once."""
        return self.chance.uniform(*self.at_once_s)


USUAL = Terms()
