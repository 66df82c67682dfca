"""Whether a node claims more tokens than its own engine says it has made.

Both sides only grow, and a claim reaches us after its tokens were counted by the engine: whatever runs at the moment
makes claims smaller, never larger. So they may be compared at any time, as long as the claims are the older ones.
"""

from collections.abc import Mapping
from dataclasses import dataclass

PROMPT = "prompt_tokens_total"
GENERATION = "generation_tokens_total"
# Requests that ended before the first reading, and were recorded after it.
_SLACK_TOKENS = 16_384
_TOLERANCE_PART = 100
FADING_TOKENS = 50_000_000


@dataclass(frozen=True, slots=True)
class Tokens:
    """Prompt and generated tokens."""

    prompt: int = 0
    generation: int = 0

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt + other.prompt, self.generation + other.generation)


def read(counters: Mapping[str, object]) -> Tokens | None:
    """Return an engine's counters; None where it has none, or states something that no counter can be."""
    prompt, generation = counters.get(PROMPT), counters.get(GENERATION)
    if not isinstance(prompt, int) or not isinstance(generation, int) or prompt < 0 or generation < 0:
        return None
    return Tokens(prompt, generation)


def has_restarted(*, before: Tokens, now: Tokens) -> bool:
    """Tell whether the engine counts anew: what it made between our last reading and its end is not known."""
    return now.prompt < before.prompt or now.generation < before.generation


def most_claimable(engine: int) -> int:
    """Return the most that may be claimed of what an engine counted: a hundredth more, and what may be under way."""
    return engine + engine // _TOLERANCE_PART + _SLACK_TOKENS


def exceeds_engine(*, claimed: Tokens, engine: Tokens) -> bool:
    """Tell whether claims run further ahead of the engine than they may."""
    return claimed.prompt > most_claimable(engine.prompt) or claimed.generation > most_claimable(engine.generation)
