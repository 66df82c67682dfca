"""Budgets of keys, projects and organizations, leased to gateway processes the way credit is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction
from django.db.models import F

from portal.billing import locks
from portal.billing.models.credit import BudgetLease, BudgetWindow, LeaseState
from portal.billing.rules import leasing, windows
from portal.billing.rules.leasing import Ask
from portal.billing.rules.windows import BudgetTerms
from portal.billing.selectors import budget_owners
from portal.billing.services.lease_life import Life
from portal.metering.models import Reader
from portal.metering.selectors import queued, spools


def _give_back(lease: BudgetLease, nano: int) -> None:
    locks.budget_windows([lease.window_id])
    BudgetWindow.objects.filter(pk=lease.window_id).update(leased_nano=F("leased_nano") - nano)


def _spend(lease: BudgetLease, nano: int) -> None:
    locks.budget_windows([lease.window_id])
    BudgetWindow.objects.filter(pk=lease.window_id).update(
        used_nano=F("used_nano") + nano, leased_nano=F("leased_nano") - nano
    )


LIFE: Final[Life[BudgetLease]] = Life(
    rows=BudgetLease.objects.all(),
    lock=locks.budget_leases,
    unposted=lambda lease_id: queued.queued_budget_charge(reader=Reader.BILLING, budget_lease_id=lease_id),
    give_back=_give_back,
    spend=_spend,
    topic_subject=lambda lease: leasing.budget_subject(lease.window.owner),
)


@dataclass(frozen=True, slots=True)
class GrantedBudget:
    """A budget lease for the spool (None where nothing was left) and where its window stands (nano)."""

    lease_id: int | None
    granted: int
    expires_at: datetime
    cap_nano: int
    used_nano: int
    leased_nano: int
    resets_at: datetime | None


def grant(*, terms: BudgetTerms, window_at: datetime, spool_id: int, ask: Ask, now: datetime) -> GrantedBudget:
    """Open or enlarge the spool's lease on the window that `window_at` is in, up to the owner's cap of now.

    Raises BudgetOwnerUnknown, and SpoolClosed where the spool brings no more records.
    """
    with transaction.atomic():
        spools.require_open(spool_id=spool_id)
        window = _window(terms, window_at)
        open_ids = BudgetLease.objects.filter(window=window, spool_id=spool_id, state=LeaseState.OPEN)
        lease = next(iter(locks.budget_leases(open_ids.values_list("pk", flat=True)).values()), None)
        window = locks.budget_windows([window.pk])[window.pk]
        reach = leasing.Reach(
            free=max(0, window.cap_nano - window.used_nano - window.leased_nano),
            idle=ask.idle_nano.get(lease.pk, 0) if lease else 0,
        )
        (extra,) = leasing.grants([reach], ask=ask)
        if extra:
            lease = _enlarge(lease, window, spool_id, extra, now)
            window.leased_nano += extra
            window.save(update_fields=["leased_nano"])
        return _granted(lease, window, now)


def _window(terms: BudgetTerms, at: datetime) -> BudgetWindow:
    """Return the window with the owner's cap of now; where he has another budget by now, with the one asked for."""
    owner = budget_owners.find(owner=terms.owner)
    cap = owner.cap_nano if owner.cap_nano is not None and owner.period == terms.period else terms.cap_nano
    span = windows.window_of(period=terms.period, zone=terms.zone, at=at)
    window, is_new = BudgetWindow.objects.get_or_create(
        owner=terms.owner,
        period=terms.period,
        starts_at=span.starts_at,
        ends_at=span.ends_at,
        defaults={"organization_id": owner.organization_id, "cap_nano": cap},
    )
    if not is_new and window.cap_nano != cap:
        BudgetWindow.objects.filter(pk=window.pk).update(cap_nano=cap)
    return window


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


def _granted(lease: BudgetLease | None, window: BudgetWindow, now: datetime) -> GrantedBudget:
    return GrantedBudget(
        lease_id=lease.pk if lease else None,
        granted=lease.granted if lease else 0,
        expires_at=lease.expires_at if lease else now,
        cap_nano=window.cap_nano,
        used_nano=window.used_nano,
        leased_nano=window.leased_nano,
        resets_at=window.ends_at,
    )
