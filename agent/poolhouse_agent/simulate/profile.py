"""A simulated node in one word: its GPUs and how its engine behaves, such as `rtx4090x2` or `h100x8:inflate-3`."""

from dataclasses import dataclass

from poolhouse_agent.simulate import behaviours, gpus


@dataclass(frozen=True, slots=True)
class Profile:
    """What a node simulates."""

    gpus: str
    behaviour: str


def parse(text: str) -> Profile:
    """Read `GPUS`, `GPUS:BEHAVIOUR` or `BEHAVIOUR`. Raises ValueError naming what is known."""
    first, separator, second = text.partition(":")
    if not separator and _is_behaviour(first):
        return Profile(gpus.DEFAULT, first)
    gpus.parse(first)
    behaviours.find(second or "honest")
    return Profile(first, second or "honest")


def _is_behaviour(name: str) -> bool:
    try:
        behaviours.find(name)
    except ValueError:
        return False
    return True
