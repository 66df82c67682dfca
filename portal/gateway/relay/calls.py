"""One admitted request on its way: what dispatch and relay share."""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from portal.gateway.contracts import Attempt, RequestFacts, Settled
from portal.gateway.exchange import Exchange
from portal.gateway.fields.chat import ChatRequest
from portal.gateway.limits import Slot
from portal.gateway.relay.upstream import Upstream
from portal.gateway.rewrite import Names


@dataclass(frozen=True, slots=True)
class Pace:
    """How long a customer hears nothing before he is told to wait, and how long a begun stream may be silent."""

    keep_alive_s: float = 15.0
    idle_s: float = 60.0


@dataclass(slots=True)
class Call:
    """An admitted request."""

    exchange: Exchange
    facts: RequestFacts
    chat: ChatRequest
    slot: Slot
    currency: str
    affinity: bytes | None
    started: float = field(default_factory=time.monotonic)
    used_tokens: int = 0
    pace: Pace = Pace()

    @property
    def names(self) -> Names:
        """Return what every answer to this request carries."""
        facts = self.facts
        return Names(
            answer_id=f"chatcmpl-{facts.request_id}",
            created=int(facts.opened_at),
            model=facts.model.public_id,
            choices=self.chat.choices,
            has_logprobs=bool(self.chat.body.get("logprobs")),
        )

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return the headers that every good answer carries."""
        lines = list(self.slot.headers)
        if self.chat.ignored:
            lines.append((b"x-pool-ignored-fields", ignored_names(self.chat.ignored)))
        return lines


Settle = Callable[[], Awaitable[Settled]]


class Relay(Protocol):
    """Carries one attempt's answer to the customer. `settle` closes the attempt as completed, once."""

    async def __call__(self, call: Call, attempt: Attempt, upstream: Upstream, settle: Settle) -> None:
        """Return when the customer has the whole answer. Raises NodeFailed or CustomerGone."""


def ignored_names(names: tuple[str, ...]) -> bytes:
    """Return field names as a header: printable ASCII, bounded."""
    safe = ["".join(c for c in name if c.isascii() and (c.isalnum() or c in "._-"))[:64] for name in names[:32]]
    return ", ".join(name for name in safe if name).encode()
