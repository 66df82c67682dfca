"""One admitted request on its way: what dispatch and relay share."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from portal.gateway.contracts import Attempt, RequestFacts, Settled
from portal.gateway.dialects.base import Dialect, Names
from portal.gateway.endpoints.base import Reader
from portal.gateway.exchange import Exchange
from portal.gateway.fields.asked import Asked
from portal.gateway.limits import Slot
from portal.gateway.relay.upstream import Upstream


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
    asked: Asked
    names: Names
    dialect: Dialect
    reader: Reader
    slot: Slot
    affinity: bytes | None
    used_tokens: int = 0
    pace: Pace = Pace()
    is_session: bool = False


Settle = Callable[[], Awaitable[Settled]]


class Relay(Protocol):
    """Carries one attempt's answer to the customer. `settle` closes the attempt as completed, once."""

    async def __call__(self, call: Call, attempt: Attempt, upstream: Upstream, settle: Settle) -> None:
        """Return when the customer has the whole answer. Raises NodeFailed or CustomerGone."""
