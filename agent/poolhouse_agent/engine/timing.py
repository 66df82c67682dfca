"""How patient the agent is with engines."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds, but for the last; every test that cannot wait brings its own."""

    poll_s: float = 5.0
    probe_every_s: float = 60.0
    probe_timeout_s: float = 20.0
    stuck_after_s: float = 60.0
    drain_s: float = 60.0
    restart_first_s: float = 5.0
    restart_longest_s: float = 600.0
    look_again_s: float = 15.0
    restarts_an_hour: int = 5
