"""Which nodes of a fleet are of which kind: weights in, the same draw for the same seed out."""

import random

from poolhouse_agent.errors import ConfigError
from poolhouse_agent.simulate.fleet import kinds
from poolhouse_agent.simulate.fleet.kinds import Kind

DEFAULT = (
    "healthy=80,flapping=4,slow=3,cheating=2,broken=2,mig=2,lost-gpu=2,skewed=1,cloned=1,quiet=1,restarting=1,leaving=1"
)
_MAX_WEIGHT = 1_000_000


def parse(text: str) -> dict[str, int]:
    """Read `healthy=80,flapping=5`; a bare name weighs 1. Raises ConfigError."""
    weights: dict[str, int] = {}
    for part in text.split(","):
        name, separator, number = (word.strip() for word in part.partition("="))
        kinds.find(name)
        if separator and not number.isdecimal():
            raise ConfigError("config_invalid", f"the weight of {name!r} is not a whole number: {number!r}")
        weights[name] = weights.get(name, 0) + min(int(number or "1"), _MAX_WEIGHT)
    if not any(weights.values()):
        raise ConfigError("config_invalid", "a mix needs a weight above zero")
    return weights


def draw(weights: dict[str, int], *, nodes: int, seed: int) -> list[Kind]:
    """Return a kind for each node: shares as near to the weights as whole nodes allow, in an order by the seed."""
    total = sum(weights.values())
    exact = {name: nodes * weight / total for name, weight in weights.items()}
    counts = {name: int(share) for name, share in exact.items()}
    by_remainder = sorted(exact, key=lambda name: (counts[name] - exact[name], name))
    for name in by_remainder[: nodes - sum(counts.values())]:
        counts[name] += 1
    drawn = [kinds.find(name) for name in counts for _ in range(counts[name])]
    random.Random(seed).shuffle(drawn)  # noqa: S311  a draw that can be repeated, not a secret
    return drawn
