"""How a simulated engine behaves: honest, cheating, or broken in one of the ways real ones break."""

from dataclasses import dataclass
from enum import StrEnum


class Fault(StrEnum):
    """What goes wrong, if anything."""

    NONE = ""
    BREAKS = "breaks"
    DIES = "dies"
    EMPTY = "empty"
    ENDLESS = "endless"
    ERROR_IN_STREAM = "error-in-stream"
    FAILS = "fails"
    GARBAGE = "garbage"
    GARBAGE_EVENTS = "garbage-events"
    GIANT_LINE = "giant-line"
    HANGS = "hangs"
    HANGS_AFTER_ROLE = "hangs-after-role"
    HTML = "html"
    NO_DONE = "no-done"
    REDIRECTS = "redirects"
    REFUSES = "refuses"
    STALLS = "stalls"
    UNAUTHORIZED = "unauthorized"


class UsageShape(StrEnum):
    """How the usage object is bent."""

    HONEST = ""
    MISSING = "usage-missing"
    NEGATIVE = "usage-negative"
    TEXT = "usage-text"
    FRACTION = "usage-fraction"
    HUGE = "usage-huge"
    NOT_AN_OBJECT = "usage-list"
    CACHED_ABOVE_PROMPT = "usage-cached-above-prompt"


@dataclass(frozen=True, slots=True)
class Behaviour:
    """One way to behave. `completion_factor` and `prompt_factor` multiply what usage claims."""

    name: str
    fault: Fault = Fault.NONE
    usage: UsageShape = UsageShape.HONEST
    completion_factor: int = 1
    prompt_factor: int = 1
    tokens_per_second: int | None = None
    after_tokens: int = 5


_SLOW_TOKENS_PER_SECOND = 4
_MAX_FACTOR = 1_000_000

HONEST = Behaviour("honest")
_NAMED = {
    "honest": HONEST,
    "slow": Behaviour("slow", tokens_per_second=_SLOW_TOKENS_PER_SECOND),
    **{fault.value: Behaviour(fault.value, fault=fault) for fault in Fault if fault},
    **{shape.value: Behaviour(shape.value, usage=shape) for shape in UsageShape if shape},
}


def names() -> list[str]:
    """The behaviours that have a fixed name."""
    return [*sorted(_NAMED), "inflate-N", "inflate-prompt-N"]


def find(name: str) -> Behaviour:
    """Return the behaviour called `name`, where `inflate-N` claims N times the tokens. Raises ValueError."""
    if name in _NAMED:
        return _NAMED[name]
    word, _, number = name.rpartition("-")
    if number.isdigit() and 1 <= int(number) <= _MAX_FACTOR:
        if word == "inflate":
            return Behaviour(name, completion_factor=int(number))
        if word == "inflate-prompt":
            return Behaviour(name, prompt_factor=int(number))
    raise ValueError(f"unknown behaviour {name!r}; known: {', '.join(names())}")
