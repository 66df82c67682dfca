"""Credit that a gateway process may spend from memory: granted under the account's lock, returned when all is in.

Always the sum of granted minus used over an account's leases that are not closed = what is held on the account.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import F

from portal.billing import locks
from portal.billing.lease_errors import LeaseClosed, LeaseOverdrawn, LeaseUnknown, RecordsMissing
from portal.billing.models.credit import CreditLease, LeaseState
from portal.billing.rules import leasing
from portal.billing.rules.accounts import Kind
from portal.billing.rules.leasing import Ask
from portal.billing.selectors import credit
from portal.billing.selectors.credit import SpendableAccount
from portal.billing.services import ledger
from portal.integrations import bus
from portal.metering.models import Reader, Spool, SpoolState
from portal.metering.selectors import queued, spools


@dataclass(frozen=True, slots=True)
class GrantedLease:
    """An open lease as it stands after the call; `granted` is its whole size, of which the process spends."""

    lease_id: int
    is_promotional: bool
    granted: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Granted:
    """The organization's open leases for the spool, promotional credit first, and where its credit stands (nano)."""

    leases: tuple[GrantedLease, ...]
    balance_nano: int
    held_nano: int
    largest_balance_nano: int


def grant(*, organization_id: int, spool_id: int, ask: Ask, now: datetime) -> Granted:
    """Open or enlarge the spool's leases, promotional credit first, as far as the accounts' free credit goes.

    Raises SpoolClosed where the spool brings no more records.
    """
    with transaction.atomic():
        spools.require_open(spool_id=spool_id)
        owned = credit.spendable_account_ids(organization_id=organization_id)
        open_ids = CreditLease.objects.filter(account__in=owned, spool_id=spool_id, state=LeaseState.OPEN)
        leases = {
            lease.account_id: lease for lease in locks.credit_leases(open_ids.values_list("pk", flat=True)).values()
        }
        locks.accounts(owned)
        wanted = ask.wanted_nano
        for account in credit.spendable_accounts(organization_id=organization_id):
            lease = leases.get(account.account_id)
            idle = ask.idle_nano.get(lease.pk, 0) if lease else 0
            extra = leasing.grant_nano(free=account.free_nano, idle=idle, wanted=wanted, ask=ask)
            if extra:
                ledger.hold(account.account_id, extra)
                leases[account.account_id] = _enlarge(lease, account, spool_id, extra, now)
            if extra or idle >= ask.minimum_nano:
                wanted = max(0, wanted - idle - extra)
        return _granted(organization_id, leases.values())


def shrink(*, lease_id: int, keep_nano: int, now: datetime) -> int:
    """Return to the account what the lease has beyond `keep_nano`; return the lease's size afterwards."""
    with transaction.atomic():
        lease = _locked(lease_id)
        granted = max(keep_nano, lease.used)
        if lease.state != LeaseState.CLOSED and granted < lease.granted:
            _give_back(lease, granted=granted)
            bus.announce("leases", str(lease.organization_id))
        return lease.granted


def renew(*, lease_ids: Collection[int], now: datetime) -> dict[int, datetime]:
    """Begin a new term for the leases that are still open; those left out must no longer be spent from."""
    expires_at = now + leasing.TERM
    with transaction.atomic():
        still_open = [lease.pk for lease in locks.credit_leases(lease_ids).values() if lease.state == LeaseState.OPEN]
        CreditLease.objects.filter(pk__in=still_open).update(expires_at=expires_at)
    return dict.fromkeys(still_open, expires_at)


def begin_closing(*, lease_ids: Iterable[int]) -> list[int]:
    """Fence open leases: they get no more and are not renewed. Return those that were open."""
    with transaction.atomic():
        fenced = [lease.pk for lease in locks.credit_leases(lease_ids).values() if lease.state == LeaseState.OPEN]
        CreditLease.objects.filter(pk__in=fenced).update(state=LeaseState.CLOSING)
    return fenced


def begin_closing_expired(*, now: datetime, limit: int = 1000) -> list[int]:
    """Fence the leases whose term is over: their process lives no more, or has lost the database."""
    expired = CreditLease.objects.filter(state=LeaseState.OPEN, expires_at__lte=now).order_by("pk")
    return begin_closing(lease_ids=list(expired.values_list("pk", flat=True)[:limit]))


def finish(*, lease_id: int, last_seq: int, now: datetime) -> bool:
    """Return the lease's rest; `last_seq` is the spool's last record against it. True once it is closed.

    While charges wait to be posted it stays `closing` with just enough for them. Raises LeaseUnknown, RecordsMissing.
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
        ids = CreditLease.objects.filter(spool=spool).exclude(state=LeaseState.CLOSED).values_list("pk", flat=True)
        return sum(not _finish(lease, now) for lease in locks.credit_leases(ids).values())


def finish_closing(*, now: datetime, limit: int = 1000) -> int:
    """Close the closing leases whose charges are all posted; return how many were closed."""
    closing = CreditLease.objects.filter(state=LeaseState.CLOSING)
    done = closing.filter(granted=F("used")) | closing.exclude(spool__state=SpoolState.OPEN)
    closed = 0
    for lease_id in done.order_by("pk").values_list("pk", flat=True)[:limit]:
        with transaction.atomic():
            closed += _finish(_locked(lease_id), now)
    return closed


def apply_usage(*, lease_id: int, charge_nano: int) -> None:
    """Lower the lease and the account's hold by a charge that is being posted in the same transaction.

    Whoever posts a batch locks all its leases first. Raises LeaseUnknown, LeaseClosed, LeaseOverdrawn.
    """
    with transaction.atomic():
        lease = _locked(lease_id)
        if lease.state == LeaseState.CLOSED:
            raise LeaseClosed(f"lease {lease_id} is closed; {charge_nano} nano cannot be charged to it")
        if lease.used + charge_nano > lease.granted:
            raise LeaseOverdrawn(f"lease {lease_id} has {lease.granted - lease.used} nano left, not {charge_nano}")
        if charge_nano:
            CreditLease.objects.filter(pk=lease_id).update(used=F("used") + charge_nano)
            ledger.unhold(lease.account_id, charge_nano)


def _locked(lease_id: int) -> CreditLease:
    lease = locks.credit_leases([lease_id]).get(lease_id)
    if lease is None:
        raise LeaseUnknown(f"there is no credit lease {lease_id}")
    return lease


def _enlarge(
    lease: CreditLease | None, account: SpendableAccount, spool_id: int, extra: int, now: datetime
) -> CreditLease:
    expires_at = now + leasing.TERM
    if lease is None:
        return CreditLease.objects.create(
            organization_id=account.organization_id,
            account_id=account.account_id,
            spool_id=spool_id,
            granted=extra,
            created_at=now,
            expires_at=expires_at,
        )
    lease.granted += extra
    lease.expires_at = expires_at
    lease.save(update_fields=["granted", "expires_at"])
    return lease


def _give_back(lease: CreditLease, *, granted: int) -> None:
    rest = lease.granted - granted
    if rest:
        lease.granted = granted
        lease.save(update_fields=["granted"])
        ledger.unhold(lease.account_id, rest)


def _finish(lease: CreditLease, now: datetime) -> bool:
    if lease.state == LeaseState.CLOSED:
        return True
    unposted = queued.queued_charge(reader=Reader.BILLING, lease_id=lease.pk)
    rest = leasing.returnable_nano(granted=lease.granted, used=lease.used, unposted=unposted)
    if rest:
        _give_back(lease, granted=lease.granted - rest)
        bus.announce("leases", str(lease.organization_id))
    lease.state = LeaseState.CLOSING if unposted else LeaseState.CLOSED
    lease.closed_at = None if unposted else now
    lease.save(update_fields=["state", "closed_at"])
    return not unposted


def _granted(organization_id: int, leases: Iterable[CreditLease]) -> Granted:
    accounts = credit.spendable_accounts(organization_id=organization_id)
    kinds = {account.account_id: account.kind for account in accounts}
    found = [
        GrantedLease(
            lease_id=lease.pk,
            is_promotional=kinds[lease.account_id] == Kind.PROMO_CREDIT,
            granted=lease.granted,
            expires_at=lease.expires_at,
        )
        for lease in leases
    ]
    return Granted(
        leases=tuple(sorted(found, key=lambda lease: not lease.is_promotional)),
        balance_nano=sum(account.balance_nano for account in accounts),
        held_nano=sum(account.held_nano for account in accounts),
        largest_balance_nano=max((account.balance_nano for account in accounts), default=0),
    )
