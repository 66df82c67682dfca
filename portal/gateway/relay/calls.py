"""One admitted request on its way: what dispatch and relay share."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from portal.gateway.contracts import RequestFacts, Settled
from portal.gateway.dialects.base import Dialect, Names, StreamDialect
from portal.gateway.endpoints.base import Reader
from portal.gateway.exchange import Exchange
from portal.gateway.fields.asked import Asked

_MIN_ANSWER_BYTES: Final = 262_144
_BYTES_PER_TOKEN: Final = 512
_BYTES_PER_EVENT: Final = 2_048
_LOGPROB_BYTES: Final = 256


@dataclass(frozen=True, slots=True)
class Pace:
    """The deadlines of an answer that do not depend on its model.

    After `keep_alive_s` without a byte the customer is told to wait. A begun stream brings a whole event within
    `idle_s`, a begun whole answer its next bytes within `body_idle_s` and its last within `body_s`. No answer takes
    longer than its first token may and then its maximum of tokens at `slowest_tokens_per_s`.
    """

    keep_alive_s: float = 15.0
    idle_s: float = 60.0
    body_idle_s: float = 10.0
    body_s: float = 60.0
    slowest_tokens_per_s: float = 4.0


@dataclass(slots=True)
class Call:
    """An admitted request. `heard_at` is when its customer last got a byte, or came."""

    exchange: Exchange
    facts: RequestFacts
    asked: Asked
    names: Names
    dialect: Dialect
    stream: StreamDialect | None
    reader: Reader
    affinity: bytes | None
    used_tokens: int = 0
    pace: Pace = Pace()
    heard_at: float = field(default_factory=time.monotonic)
    is_session: bool = False

    @property
    def longest_s(self) -> float:
        """Return how long a node may take for the whole answer."""
        return self.facts.model.first_token_timeout_s + self.asked.output_tokens / self.pace.slowest_tokens_per_s

    @property
    def longest_bytes(self) -> int:
        """Return how many bytes of a node's answer, however it comes, its tokens can account for."""
        per_token = _BYTES_PER_EVENT if self.asked.is_stream else _BYTES_PER_TOKEN
        per_token += _LOGPROB_BYTES * (1 + (self.asked.logprobs or 0))
        return _MIN_ANSWER_BYTES + self.facts.output_bound_tokens * per_token + self.asked.answer_bytes


Settle = Callable[[], Awaitable[Settled]]  # closes the attempt as completed, once
