"""The life of a lease, of credit or of a budget: renewed, fenced, charged, and closed when its spool has brought all.

Always the sum of granted minus used over the leases that are not closed = what is set aside where they were lent from.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Generic, TypeVar

from django.db import transaction
from django.db.models import F, QuerySet

from portal.billing.lease_errors import LeaseClosed, LeaseOverdrawn, LeaseUnknown, RecordsMissing
from portal.billing.models.credit import BudgetLease, CreditLease, LeaseState
from portal.billing.rules import leasing
from portal.integrations import bus
from portal.metering.models import Spool, SpoolState

L = TypeVar("L", CreditLease, BudgetLease)


@dataclass(frozen=True, slots=True)
class Life(Generic[L]):
    """One kind of lease: its rows, their lock, what is not posted yet, and what it was lent from.

    What comes back is announced under `topic_subject`, so that those who wait for it ask again.
    """

    rows: QuerySet[L]
    lock: Callable[[Iterable[int]], dict[int, L]]
    unposted: Callable[[int], int]
    give_back: Callable[[L, int], None]
    spend: Callable[[L, int], None]
    topic_subject: Callable[[L], str]

    def shrink(self, *, lease_id: int, keep_nano: int) -> int:
        """Give back what the lease has beyond `keep_nano`; return its size afterwards. Raises LeaseUnknown."""
        with transaction.atomic():
            lease = self._locked(lease_id)
            granted = max(keep_nano, lease.used)
            if lease.state != LeaseState.CLOSED and granted < lease.granted:
                self._resize(lease, granted)
            return lease.granted

    def renew(self, *, lease_ids: Collection[int], now: datetime) -> dict[int, datetime]:
        """Begin a new term for the leases that are still open; those left out must no longer be spent from."""
        expires_at = now + leasing.TERM
        with transaction.atomic():
            still_open = [lease.pk for lease in self.lock(lease_ids).values() if lease.state == LeaseState.OPEN]
            self.rows.filter(pk__in=still_open).update(expires_at=expires_at)
        return dict.fromkeys(still_open, expires_at)

    def begin_closing(self, *, lease_ids: Iterable[int]) -> list[int]:
        """Fence open leases: they get no more and are not renewed. Return those that were open."""
        with transaction.atomic():
            fenced = [lease.pk for lease in self.lock(lease_ids).values() if lease.state == LeaseState.OPEN]
            self.rows.filter(pk__in=fenced).update(state=LeaseState.CLOSING)
        return fenced

    def begin_closing_expired(self, *, now: datetime, limit: int = 1000) -> list[int]:
        """Fence the leases whose term is over: their process lives no more, or has lost the database."""
        expired = self.rows.filter(state=LeaseState.OPEN, expires_at__lte=now).order_by("pk")
        return self.begin_closing(lease_ids=list(expired.values_list("pk", flat=True)[:limit]))

    def finish(self, *, lease_id: int, last_seq: int, now: datetime) -> bool:
        """Give back the lease's rest; `last_seq` is the spool's last record against it. True once it is closed.

        While charges wait to be posted it stays `closing` with just enough for them. Raises LeaseUnknown,
        RecordsMissing.
        """
        with transaction.atomic():
            lease = self._locked(lease_id)
            spool = Spool.objects.get(pk=lease.spool_id)
            if spool.state == SpoolState.OPEN and spool.shipped_seq < last_seq:
                raise RecordsMissing(f"spool {spool.public_id} has shipped {spool.shipped_seq} of {last_seq} records")
            return self._finish(lease, now)

    def finish_spool(self, *, spool_id: int, now: datetime) -> int:
        """Give back the rest of all leases of a spool that brings no more records; return how many wait for postings.

        Raises RecordsMissing where the spool is still open.
        """
        with transaction.atomic():
            spool = Spool.objects.get(pk=spool_id)
            if spool.state == SpoolState.OPEN:
                raise RecordsMissing(f"spool {spool.public_id} is still open")
            ids = self.rows.filter(spool=spool).exclude(state=LeaseState.CLOSED).values_list("pk", flat=True)
            return sum(not self._finish(lease, now) for lease in self.lock(ids).values())

    def finish_closing(self, *, now: datetime, limit: int = 1000) -> int:
        """Close the closing leases whose charges are all posted; return how many were closed."""
        closing = self.rows.filter(state=LeaseState.CLOSING)
        done = closing.filter(granted=F("used")) | closing.exclude(spool__state=SpoolState.OPEN)
        closed = 0
        for lease_id in done.order_by("pk").values_list("pk", flat=True)[:limit]:
            with transaction.atomic():
                closed += self._finish(self._locked(lease_id), now)
        return closed

    def charge(self, *, lease_id: int, charge_nano: int) -> None:
        """Take a charge that is being posted off the lease, in the same transaction.

        Whoever posts a batch locks all its leases first. Raises LeaseUnknown, LeaseClosed, LeaseOverdrawn.
        """
        with transaction.atomic():
            lease = self._locked(lease_id)
            if lease.state == LeaseState.CLOSED:
                raise LeaseClosed(f"lease {lease_id} is closed; {charge_nano} nano cannot be charged to it")
            left = lease.granted - lease.used
            if charge_nano > left:
                raise LeaseOverdrawn(f"lease {lease_id} has {left} nano left, not {charge_nano}")
            if charge_nano:
                self.rows.filter(pk=lease_id).update(used=F("used") + charge_nano)
                self.spend(lease, charge_nano)

    def _locked(self, lease_id: int) -> L:
        lease = self.lock([lease_id]).get(lease_id)
        if lease is None:
            raise LeaseUnknown(f"there is no lease {lease_id}")
        return lease

    def _resize(self, lease: L, granted: int) -> None:
        rest = lease.granted - granted
        lease.granted = granted
        lease.save(update_fields=["granted"])
        self.give_back(lease, rest)
        bus.announce("leases", self.topic_subject(lease))

    def _finish(self, lease: L, now: datetime) -> bool:
        if lease.state == LeaseState.CLOSED:
            return True
        unposted = self.unposted(lease.pk)
        rest = leasing.returnable_nano(granted=lease.granted, used=lease.used, unposted=unposted)
        if rest:
            self._resize(lease, lease.granted - rest)
        lease.state = LeaseState.CLOSING if unposted else LeaseState.CLOSED
        lease.closed_at = None if unposted else now
        lease.save(update_fields=["state", "closed_at"])
        return not unposted
