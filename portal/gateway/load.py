"""What this process has seen of each node: what runs there, how soon it answers and how fast it writes."""

from collections.abc import Callable
from typing import Final

from portal.gateway.breaker import Breaker, Verdict, clamped

_ALPHA: Final = 0.2
_FIRST_GUESS_TPS: Final = 30.0
_FIRST_GUESS_TTFT_S: Final = 0.5
_MIN_TPS: Final = 0.1
EXPLORED_SAMPLES: Final = 20


class NodeLoad:
    """One node as this process knows it."""

    __slots__ = ("breaker", "running", "samples", "tokens", "tokens_per_s", "ttft_s")

    def __init__(self) -> None:
        self.breaker = Breaker()
        self.running: dict[int, int] = {}
        self.tokens = 0
        self.samples = 0
        self.ttft_s = _FIRST_GUESS_TTFT_S
        self.tokens_per_s = _FIRST_GUESS_TPS

    @property
    def is_explored(self) -> bool:
        """Whether its timings are known well enough to be believed."""
        return self.samples >= EXPLORED_SAMPLES

    def predicted_s(self, tokens: int) -> float:
        """Return when a request of `tokens` would end if it started now."""
        return (self.tokens + tokens) / max(self.tokens_per_s, _MIN_TPS) + self.ttft_s

    def learn(self, *, ttft_s: float | None, tokens: int, seconds: float) -> None:
        """Take the timing of an attempt that ended well. The node's speed is what all its streams make together."""
        weight = _ALPHA if self.samples else 1.0
        self.samples += 1
        if ttft_s is not None:
            self.ttft_s += weight * (ttft_s - self.ttft_s)
        if tokens > 1:
            together = max(1, sum(self.running.values()))
            self.tokens_per_s += weight * (tokens / seconds * together - self.tokens_per_s)


class Ticket:
    """One attempt's place on a node; given back exactly once."""

    __slots__ = ("_is_open", "_is_probe", "_on_leave", "_tokens", "backoff_s", "load", "model_id", "node_id", "verdict")

    def __init__(
        self,
        load: NodeLoad,
        *,
        node_id: int,
        model_id: int,
        tokens: int,
        on_leave: Callable[["Ticket"], None] | None = None,
    ) -> None:
        self.load = load
        self.node_id = node_id
        self.model_id = model_id
        self.verdict: Verdict | None = None
        self._tokens = tokens
        self._on_leave = on_leave
        self._is_open = True
        self.backoff_s = 0.0
        load.running[model_id] = load.running.get(model_id, 0) + 1
        load.tokens += tokens
        self._is_probe = load.breaker.enter()

    def leave(self, verdict: Verdict, now: float, *, backoff_s: float = 0.5) -> None:
        """Give the place back and tell the breaker. Safe to call twice."""
        if not self._is_open:
            return
        self._is_open = False
        self.verdict, self.backoff_s = verdict, clamped(backoff_s)
        self.load.running[self.model_id] -= 1
        self.load.tokens -= self._tokens
        self.load.breaker.note(verdict, now, is_probe=self._is_probe, backoff_s=backoff_s)
        if self._on_leave is not None:
            self._on_leave(self)
