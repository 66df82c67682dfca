"""Leased money in memory: what is granted, used and held. Pure arithmetic; nothing here waits.

Always used + held never exceeds granted, for each lease.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from portal.billing.rules import leasing
from portal.metering.rules.draws import spread

_FENCE_S = leasing.FENCE.total_seconds()


@dataclass(frozen=True, slots=True)
class Fetched:
    """One lease as the database has it now; `granted` is its whole size. Times are Unix seconds."""

    lease_id: int
    granted: int
    expires_at: float


@dataclass(slots=True)
class Lease:
    """One lease as this process spends it. `last_seq` is its last record in the spool."""

    id: int
    granted: int
    expires_at: float
    used: int = 0
    held: int = 0
    last_seq: int = 0
    is_closing: bool = False

    @property
    def idle(self) -> int:
        """What is neither used nor held."""
        return self.granted - self.used - self.held

    def is_open(self, now: float) -> bool:
        """Tell whether it may be held from: nothing may near the end of the term, which another clock decides."""
        return not self.is_closing and now < self.expires_at - _FENCE_S


@dataclass(slots=True)
class Part:
    """What one hold has of one lease."""

    lease: Lease
    nano: int


class LeasePool:
    """The leases of one owner, in the order they are spent."""

    def __init__(self) -> None:
        self._leases: dict[int, Lease] = {}

    def __iter__(self) -> Iterator[Lease]:
        return iter(self._leases.values())

    def __len__(self) -> int:
        return len(self._leases)

    @property
    def idle(self) -> int:
        """What all open leases have left."""
        return sum(lease.idle for lease in self._leases.values() if not lease.is_closing)

    @property
    def held(self) -> int:
        """What is held for requests that run."""
        return sum(lease.held for lease in self._leases.values())

    def take(self, nano: int, now: float) -> list[Part] | None:
        """Hold `nano`, of the first leases first and of as many as it needs; None: nothing is held."""
        parts: list[Part] = []
        left = nano
        for lease in self._leases.values():
            idle = lease.granted - lease.used - lease.held
            if (idle <= 0 < left) or not lease.is_open(now):
                continue
            taken = min(idle, left)
            parts.append(Part(lease, taken))
            left -= taken
            if not left:
                break
        if left or not parts:
            return None
        for part in parts:
            part.lease.held += part.nano
        return parts

    def absorb(self, fetched: Iterable[Fetched]) -> None:
        """Take over what the database says: sizes as they are, new leases, and the end of those it no longer names."""
        named: dict[int, Lease] = {}
        for row in fetched:
            lease = self._leases.pop(row.lease_id, None) or Lease(row.lease_id, row.granted, row.expires_at)
            lease.granted, lease.expires_at, lease.is_closing = row.granted, row.expires_at, False
            named[row.lease_id] = lease
        for lease in self._leases.values():
            lease.is_closing = True
        self._leases = named | self._leases

    def idle_by_lease(self) -> dict[int, int]:
        """Return what each open lease has left."""
        return {lease.id: lease.idle for lease in self._leases.values() if not lease.is_closing}

    def forget(self, lease_id: int) -> None:
        """Drop a lease that is closed."""
        del self._leases[lease_id]


def join(parts: list[Part], more: Iterable[Part]) -> None:
    """Add what a hold took later; what comes from a lease that it has a part of already joins that part."""
    for part in more:
        known = next((mine for mine in parts if mine.lease is part.lease), None)
        if known is None:
            parts.append(part)
        else:
            known.nano += part.nano


def settle(parts: Sequence[Part], *, used: int, seq: int = 0) -> None:
    """Release the parts of one hold, of which `used` was charged by record `seq`: the first ones wholly."""
    for part, share in zip(parts, spread(used, [part.nano for part in parts]), strict=True):
        lease = part.lease
        lease.held -= part.nano
        lease.used += share
        lease.last_seq = max(lease.last_seq, seq)
