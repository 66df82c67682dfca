"""Credit that a gateway process may spend from memory: granted under the account's lock, promotional credit first."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from django.db import transaction

from portal.billing import locks
from portal.billing.models.credit import CreditLease, LeaseState
from portal.billing.rules import leasing
from portal.billing.rules.accounts import Kind
from portal.billing.rules.leasing import Ask
from portal.billing.selectors import credit
from portal.billing.selectors.credit import SpendableAccount
from portal.billing.services import ledger
from portal.billing.services.lease_life import Life
from portal.metering.models import Reader
from portal.metering.selectors import queued, spools

LIFE: Final[Life[CreditLease]] = Life(
    rows=CreditLease.objects.all(),
    lock=locks.credit_leases,
    unposted=lambda lease_id: queued.queued_charge(reader=Reader.BILLING, lease_id=lease_id),
    give_back=lambda lease, nano: ledger.unhold(lease.account_id, nano),
    spend=lambda lease, nano: ledger.unhold(lease.account_id, nano),
    topic_subject=lambda lease: str(lease.organization_id),
)


@dataclass(frozen=True, slots=True)
class GrantedLease:
    """An open lease as it stands after the call; `granted` is its whole size, of which the process spends."""

    lease_id: int
    is_promotional: bool
    granted: int
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class Granted:
    """The organization's open leases for the spool in the order they are spent, and where its credit stands (nano)."""

    leases: tuple[GrantedLease, ...]
    balance_nano: int
    held_nano: int


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
        accounts = credit.spendable_accounts(organization_id=organization_id)
        extras = leasing.grants([_reach(account, leases.get(account.account_id), ask) for account in accounts], ask=ask)
        for account, extra in zip(accounts, extras, strict=True):
            if extra:
                ledger.hold(account.account_id, extra)
                lease = leases.get(account.account_id)
                leases[account.account_id] = _enlarge(lease, account, spool_id, extra, now)
        return _granted(organization_id, leases.values())


def _reach(account: SpendableAccount, lease: CreditLease | None, ask: Ask) -> leasing.Reach:
    return leasing.Reach(free=account.free_nano, idle=ask.idle_nano.get(lease.pk, 0) if lease else 0)


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


def _granted(organization_id: int, leases: Iterable[CreditLease]) -> Granted:
    accounts = credit.spendable_accounts(organization_id=organization_id)
    open_on = {lease.account_id: lease for lease in leases}
    # A lease on an account that may not be drawn on any more is left out: what it still has is on its way back.
    found = [
        GrantedLease(
            lease_id=lease.pk,
            is_promotional=account.kind == Kind.PROMO_CREDIT,
            granted=lease.granted,
            expires_at=lease.expires_at,
        )
        for account in accounts
        if (lease := open_on.get(account.account_id)) is not None
    ]
    return Granted(
        leases=tuple(found),
        balance_nano=sum(account.balance_nano for account in accounts),
        held_nano=sum(account.held_nano for account in accounts),
    )
