"""How a tunnel is held: how patient it is, and how it gathers tokens."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Terms:
    """Seconds, and events a batch. A batch of one sends every token alone.

    A line that has gone dead without a word is noticed after `ping_s` and half as long again for the answer.
    """

    ping_s: float = 20.0
    connect_s: float = 15.0
    first_delay_s: float = 0.5
    longest_delay_s: float = 30.0
    batch_events: int = 4
    batch_wait_s: float = 0.040


USUAL = Terms()
