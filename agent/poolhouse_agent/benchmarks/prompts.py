"""Prompts of a wanted length in tokens, each one new, so that no cache knows it."""

import random

_WORDS = (
    "river", "stone", "market", "winter", "engine", "garden", "letter", "bridge", "window", "forest", "signal",
    "harbour", "village", "summer", "paper", "iron", "music", "travel", "silver", "butter", "question", "thunder",
    "station", "mirror", "pepper", "shadow", "teacher", "valley", "copper", "orange", "castle", "doctor",
)  # fmt: skip
_FIRST_GUESS = 1.3  # tokens a word


class Prompts:
    """Writes prompts; learns from the engine's counts how many tokens a word costs."""

    def __init__(self, *, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311  no secret: prompts are to be the same from run to run
        self._per_word = _FIRST_GUESS
        self._fixed = 0.0

    def of(self, tokens: int) -> str:
        """Return a prompt of about so many tokens."""
        count = max(1, round((tokens - self._fixed) / self._per_word))
        return " ".join([str(self._random.randrange(10**6)), *self._random.choices(_WORDS, k=count - 1)])

    def learn(self, *, short: tuple[int, int], long: tuple[int, int]) -> None:
        """Take two prompts' words and the tokens that the engine counted for them."""
        words = long[0] - short[0]
        if words > 0 and long[1] > short[1]:
            self._per_word = (long[1] - short[1]) / words
            self._fixed = max(0.0, short[1] - self._per_word * short[0])
