"""A key's monthly budget, leased to gateway processes the way credit is.

Always the sum of granted minus used over a window's leases that are not closed = what is leased of the window.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from portal.accounts.models import ApiKey
from portal.billing import locks
from portal.billing.lease_errors import LeaseClosed, LeaseOverdrawn, LeaseUnknown, RecordsMissing
from portal.billing.models.credit import BudgetLease, BudgetWindow, LeaseState
from portal.billing.rules import leasing, periods
from portal.billing.rules.leasing import Ask
from portal.integrations import bus
from portal.metering.models import Reader, Spool, SpoolState
from portal.metering.selectors import queued, spools


@dataclass(frozen=True, slots=True)
class GrantedBudget:
    """A key's budget lease for the spool (None where nothing was left) and where the month's window stands (nano)."""

    lease_id: int | None
    granted: int
    expires_at: datetime
    cap_nano: int
    used_nano: int
    leased_nano: int
    resets_at: datetime


def grant(
    *, api_key_id: int, spool_id: int, ask: Ask, now: datetime, window_at: datetime | None = None
) -> GrantedBudget:
    """Open or enlarge the spool's lease on the key's window that `window_at` (else `now`) is in, up to its cap.

    The key must have a cap. Raises ApiKey.DoesNotExist, SpoolClosed where the spool brings no more records.
    """
    with transaction.atomic():
        spools.require_open(spool_id=spool_id)
        window = _window(api_key_id, window_at or now)
        open_ids = BudgetLease.objects.filter(window=window, spool_id=spool_id, state=LeaseState.OPEN)
        lease = next(iter(locks.budget_leases(open_ids.values_list("pk", flat=True)).values()), None)
        window = locks.budget_windows([window.pk])[window.pk]
        idle = ask.idle_nano.get(lease.pk, 0) if lease else 0
        free = max(0, window.cap_nano - window.used_nano - window.leased_nano)
        extra = leasing.grant_nano(free=free, idle=idle, wanted=ask.wanted_nano, ask=ask)
        if extra:
            lease = _enlarge(lease, window, spool_id, extra, now)
            window.leased_nano += extra
            window.save(update_fields=["leased_nano"])
        return _granted(lease, window)


def shrink(*, lease_id: int, keep_nano: int, now: datetime) -> int:
    """Return to the window what the lease has beyond `keep_nano`; return the lease's size afterwards."""
    with transaction.atomic():
        lease = _locked(lease_id)
        granted = max(keep_nano, lease.used)
        if lease.state != LeaseState.CLOSED and granted < lease.granted:
            _give_back(lease, granted=granted)
        return lease.granted


def renew(*, lease_ids: Collection[int], now: datetime) -> dict[int, datetime]:
    """Begin a new term for the leases that are still open; those left out must no longer be spent from."""
    expires_at = now + leasing.TERM
    with transaction.atomic():
        still_open = [lease.pk for lease in locks.budget_leases(lease_ids).values() if lease.state == LeaseState.OPEN]
        BudgetLease.objects.filter(pk__in=still_open).update(expires_at=expires_at)
    return dict.fromkeys(still_open, expires_at)


def begin_closing(*, lease_ids: Iterable[int]) -> list[int]:
    """Fence open leases: they get no more and are not renewed. Return those that were open."""
    with transaction.atomic():
        fenced = [lease.pk for lease in locks.budget_leases(lease_ids).values() if lease.state == LeaseState.OPEN]
        BudgetLease.objects.filter(pk__in=fenced).update(state=LeaseState.CLOSING)
    return fenced


def begin_closing_expired(*, now: datetime, limit: int = 1000) -> list[int]:
    """Fence the leases whose term is over."""
    expired = BudgetLease.objects.filter(state=LeaseState.OPEN, expires_at__lte=now).order_by("pk")
    return begin_closing(lease_ids=list(expired.values_list("pk", flat=True)[:limit]))


def finish(*, lease_id: int, last_seq: int, now: datetime) -> bool:
    """Return the lease's rest; `last_seq` is the spool's last record against it. True once it is closed.

    Raises LeaseUnknown, RecordsMissing.
    """
    with transaction.atomic():
        lease = _locked(lease_id)
        spool = Spool.objects.get(pk=lease.spool_id)
        if spool.state == SpoolState.OPEN and spool.shipped_seq < last_seq:
            raise RecordsMissing(f"spool {spool.public_id} has shipped {spool.shipped_seq} of {last_seq} records")
        return _finish(lease, now)


def finish_spool(*, spool_id: int, now: datetime) -> int:
    """Return the rest of all leases of a spool that brings no more records; return how many are not closed yet.

    Raises RecordsMissing where the spool is still open.
    """
    with transaction.atomic():
        spool = Spool.objects.get(pk=spool_id)
        if spool.state == SpoolState.OPEN:
            raise RecordsMissing(f"spool {spool.public_id} is still open")
        ids = BudgetLease.objects.filter(spool=spool).exclude(state=LeaseState.CLOSED).values_list("pk", flat=True)
        return sum(not _finish(lease, now) for lease in locks.budget_leases(ids).values())


def finish_closing(*, now: datetime, limit: int = 1000) -> int:
    """Close the closing leases whose charges are all posted; return how many were closed."""
    closing = BudgetLease.objects.filter(state=LeaseState.CLOSING)
    done = closing.filter(granted=F("used")) | closing.exclude(spool__state=SpoolState.OPEN)
    closed = 0
    for lease_id in done.order_by("pk").values_list("pk", flat=True)[:limit]:
        with transaction.atomic():
            closed += _finish(_locked(lease_id), now)
    return closed


def apply_usage(*, budget_lease_id: int, charge_nano: int) -> None:
    """Move a charge that is being posted from the lease into the window's use, in the same transaction.

    Whoever posts a batch locks all its leases first. Raises LeaseUnknown, LeaseClosed, LeaseOverdrawn.
    """
    with transaction.atomic():
        lease = _locked(budget_lease_id)
        if lease.state == LeaseState.CLOSED:
            raise LeaseClosed(f"budget lease {budget_lease_id} is closed")
        if lease.used + charge_nano > lease.granted:
            left = lease.granted - lease.used
            raise LeaseOverdrawn(f"budget lease {budget_lease_id} has {left} nano left, not {charge_nano}")
        BudgetLease.objects.filter(pk=lease.pk).update(used=F("used") + charge_nano)
        locks.budget_windows([lease.window_id])
        BudgetWindow.objects.filter(pk=lease.window_id).update(
            used_nano=F("used_nano") + charge_nano, leased_nano=F("leased_nano") - charge_nano
        )


def window_end(now: datetime) -> datetime:
    """Return when the window that `now` falls in ends."""
    return periods.month_of(now).ends_at


def _window(api_key_id: int, at: datetime) -> BudgetWindow:
    """Return the window of that month with the key's cap of today."""
    month = periods.month_of(at)
    cap = ApiKey.objects.values_list("budget_cap_nano", flat=True).get(pk=api_key_id) or 0
    window, is_new = BudgetWindow.objects.get_or_create(
        api_key_id=api_key_id,
        starts_at=month.starts_at,
        defaults={"ends_at": month.ends_at, "cap_nano": cap},
    )
    if not is_new and window.cap_nano != cap:
        BudgetWindow.objects.filter(pk=window.pk).update(cap_nano=cap)
    return window


def _locked(lease_id: int) -> BudgetLease:
    lease = locks.budget_leases([lease_id]).get(lease_id)
    if lease is None:
        raise LeaseUnknown(f"there is no budget lease {lease_id}")
    return lease


def _enlarge(lease: BudgetLease | None, window: BudgetWindow, spool_id: int, extra: int, now: datetime) -> BudgetLease:
    expires_at = now + leasing.TERM
    if lease is None:
        return BudgetLease.objects.create(
            window=window, spool_id=spool_id, granted=extra, created_at=now, expires_at=expires_at
        )
    lease.granted += extra
    lease.expires_at = expires_at
    lease.save(update_fields=["granted", "expires_at"])
    return lease


def _give_back(lease: BudgetLease, *, granted: int) -> None:
    rest = lease.granted - granted
    if rest:
        lease.granted = granted
        lease.save(update_fields=["granted"])
        locks.budget_windows([lease.window_id])
        BudgetWindow.objects.filter(pk=lease.window_id).update(leased_nano=F("leased_nano") - rest)
        bus.announce("leases", str(lease.window.api_key.organization_id))


def _finish(lease: BudgetLease, now: datetime) -> bool:
    if lease.state == LeaseState.CLOSED:
        return True
    unposted = queued.queued_budget_charge(reader=Reader.BILLING, budget_lease_id=lease.pk)
    rest = leasing.returnable_nano(granted=lease.granted, used=lease.used, unposted=unposted)
    _give_back(lease, granted=lease.granted - rest)
    lease.state = LeaseState.CLOSING if unposted else LeaseState.CLOSED
    lease.closed_at = None if unposted else now
    lease.save(update_fields=["state", "closed_at"])
    return not unposted


def _granted(lease: BudgetLease | None, window: BudgetWindow) -> GrantedBudget:
    return GrantedBudget(
        lease_id=lease.pk if lease else None,
        granted=lease.granted if lease else 0,
        expires_at=lease.expires_at if lease else window.ends_at,
        cap_nano=window.cap_nano,
        used_nano=window.used_nano,
        leased_nano=window.leased_nano,
        resets_at=window.ends_at,
    )
